"""Writes docs/reference/api.md from the endpoints themselves: `python tools/api_reference.py`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headwater.server import limits
from headwater.server.application import ENDPOINTS
from headwater.server.endpoint import Endpoint
from headwater.server.failures import STATUS
from headwater.server.filters import OPERATORS
from headwater.server.openapi import public_path
from headwater.server.shapes import Shape

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"

OPENING = f"""\
# The HTTP API

<!-- Made by tools/api_reference.py from the endpoints themselves; change those, and run it again. -->

`headwater serve app.py` or `headwater run app.py` serve it at http://localhost:8580; [the guide](../guides/server.md)
shows how it is used. `GET /openapi.json` is the same as an OpenAPI document.

- **Positions.** Every write returns a position. Every read accepts it as `at_least`, waits until what it reads has
  reached it (at most `wait` seconds, 30 by default), and returns the position that it shows: in its body and in the
  header `Headwater-Position`. If the wait is too long, the answer is 504, with the position that was reached.
- **Errors** have one body: `{{"error": {{"code": …, "message": …, "hint": …}}}}`, with more members for some
  errors. `code` is stable; the message is for people.
- **Values** are JSON: decimals as strings, instants in ISO 8601 with a `Z`, binary as base64, NaN and infinity as text.
- **Conditions** (`where`) are `column:operator:value`, with {", ".join(f"`{name}`" for name in OPERATORS)}.
- **Streams** are server-sent events. A stream that ends, for any reason, can be resumed with `Last-Event-ID`, which
  browsers send automatically. A comment every 15 s shows that it is alive.
- **Tokens** are sent as `Authorization: Bearer …`. Without any token, anyone on this machine may do everything; once
  there is a token, every request needs one. *read*, *write* and *admin* below say which scope.

"""

STATUS_ABOUT = {
    400: "The request must change: a parameter, a name, a host, a body that is not JSON, or has a name twice.",
    401: "A token is missing or unknown, or a webhook's signature does not match.",
    403: "The token does not allow it, or a page of another site sent the request.",
    404: "There is no such topic, view, row, hook, group, sink or dead letter.",
    408: "The headers or the body did not arrive in time.",
    409: "Another client was faster: a dead letter that is already dealt with, a fenced producer.",
    410: "What was requested is no longer kept.",
    413: "More than a limit allows, even after decompression.",
    415: "A Content-Type or Content-Encoding that is not supported.",
    421: "A host name that is not this machine's, without tokens.",
    422: "Records that do not fit (each with its reason), invalid SQL, SQL that a `limit` stopped, a reused key.",
    429: "Too many at once; `Retry-After` says when to try again.",
    431: "The headers are larger than `header_bytes_max`.",
    500: "A bug, or damage; or it may have happened (`indeterminate`): check before you send again.",
    502: "The target of a sink does not answer, or refuses.",
    503: "It did not happen, and may work soon: another process holds the log, the process of a query was killed, or "
    "there are too many connections.",
    504: "The position was not reached in time; `position` is the one that was. With `sinks_behind`, the write is "
    "durable at `position`, and `sinks` has the position of each sink.",
    507: "The disk is full. Nothing was appended.",
}


def reference() -> str:
    """The whole page."""
    parts = [OPENING, "## Endpoints\n"]
    for tag in dict.fromkeys(endpoint.tag for endpoint in ENDPOINTS):
        parts.append(f"### {tag}\n")
        parts += ["\n".join(_section(endpoint)) for endpoint in ENDPOINTS if endpoint.tag == tag]
    parts.append("## Statuses of errors\n\n| status | meaning |\n|---|---|")
    missing = {status for _, status in STATUS} - STATUS_ABOUT.keys()
    assert not missing, f"say what these mean: {missing}"
    parts += [f"| {status} | {about} |" for status, about in STATUS_ABOUT.items()]
    parts.append("\n## Limits\n\nEach is changed with `--limit NAME=VALUE`.\n\n| name | value | |\n|---|---|---|")
    parts += list(_limits())
    return "\n".join(parts) + "\n"


def _section(endpoint: Endpoint) -> Iterator[str]:
    yield f"#### {endpoint.method} {public_path(endpoint)}\n"
    scope = "No token is needed." if endpoint.scope is None else f"*{endpoint.scope}*"
    yield f"{endpoint.summary}. {scope}\n"
    if endpoint.about:
        yield f"{endpoint.about}\n"
    if endpoint.parameters:
        yield "| parameter | in | |\n|---|---|---|"
        for one in endpoint.parameters:
            repeated = " May be given several times." if one.repeated else ""
            yield f"| `{one.name}` | {one.where} | {_cell(one.about)}{repeated}{_bounds(one.shape)} |"
        yield ""
    if endpoint.accepts:
        yield f"Body: {', '.join(f'`{kind}`' for kind in endpoint.accepts)}.\n"
    for status, given in endpoint.answers.items():
        kinds = f" ({', '.join(f'`{kind}`' for kind in given.shapes)})" if given.shapes else ""
        yield f"{status}: {given.about}{kinds}\n"
        for shape in given.shapes.values():
            if shape.get("properties"):
                yield "```text\n" + "\n".join(_drawn(shape)) + "\n```\n"


def _drawn(shape: Shape, indent: str = "") -> Iterator[str]:
    for name, inner in shape["properties"].items():
        kind, members = _kind(inner)
        yield f"{indent}{name}: {kind}"
        if members:
            yield from _drawn(members, indent + "  ")


def _kind(shape: Shape) -> tuple[str, Shape | None]:
    if "anyOf" in shape:
        kinds = [_kind(one) for one in shape["anyOf"] if one.get("type") != "null"]
        return f"{kinds[0][0]} or null", kinds[0][1]
    if shape.get("type") == "array":
        kind, members = _kind(shape["items"])
        return f"[{kind}]", members
    if shape.get("type") == "object" and "additionalProperties" in shape and not shape.get("properties"):
        kind, members = _kind(shape["additionalProperties"])
        return f"{{name: {kind}}}", members
    return shape.get("type", "anything"), shape if shape.get("properties") else None


def _bounds(shape: Shape) -> str:
    parts = []
    if "enum" in shape:
        parts.append(f"One of {', '.join(shape['enum'])}.")
    if "maximum" in shape and shape["type"] == "integer":
        parts.append(f"At most {shape['maximum']:,}.")
    if "default" in shape:
        parts.append(f"Default: {shape['default']}.")
    return " " + " ".join(parts) if parts else ""


def _limits() -> Iterator[str]:
    source: Any = inspect.getsource(limits.Limits).splitlines()
    for field in dataclasses.fields(limits.Limits):
        at = next(number for number, line in enumerate(source) if line.strip().startswith(f"{field.name}: int"))
        below = source[at + 1].strip()
        about = below.strip('"') if below.startswith('"""') else ""
        yield f"| `{field.name}` | {field.default:,} | {about} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(reference())
