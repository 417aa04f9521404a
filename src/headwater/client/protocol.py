"""The HTTP API as generators without I/O: each yields what to do next, is sent what came of it, and returns the result.

A generator yields a `Request`, and is sent the `Response` or has `AnswerLost` or `ServerUnavailable` thrown into it; or
it yields a `Pause`, and is sent None when that is over. Clients differ only in how they do these two things.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

from headwater.client.answers import Appended, Row, Rows
from headwater.errors import AnswerLost, RequestRefused, ServerUnavailable, SinksBehind
from headwater.model.durations import Duration, seconds_of
from headwater.model.position import Position

LINES = "application/x-ndjson"
JSON = "application/json"
UNAVAILABLE = frozenset({429, 503, 504, 507})
"""Statuses that say that nothing happened, and that the same request may succeed later."""
TRIES_MAX = 8
PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 5.0
WAIT_SECONDS = 30.0
"""How long a read waits for its position, unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `seconds` is how long its answer may take because of what it asks for, besides the network."""

    method: str
    path: str
    parameters: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait before the next attempt."""

    seconds: float


Result = TypeVar("Result")
Exchange: TypeAlias = "Generator[Request | Pause, Response | None, Result]"


def append(
    topic: str,
    rows: Iterable[Row] | bytes,
    *,
    key: str | None = None,
    partition: int | None = None,
    wait: Sequence[str] = (),
    timeout: Duration = WAIT_SECONDS,
) -> Exchange[Appended]:
    """Appends records. With a key the append is repeated until it is answered, and happens once.

    With `wait` it is answered when the targets of these sinks have the records, too. Raises `SinksBehind`; and
    `AnswerLost` without a key if the connection fails after the request was sent.
    """
    parameters = {} if partition is None else {"partition": str(partition)}
    seconds = seconds_of("timeout", timeout) if wait else 0.0
    if wait:
        parameters |= {"wait": ",".join(wait), "timeout": f"{seconds:g}"}
    headers = {"Content-Type": LINES} | ({} if key is None else {"Idempotency-Key": key})
    body = rows if isinstance(rows, bytes) else b"".join(_line(row) for row in rows)
    request = Request("POST", f"/topics/{_part(topic)}/records", parameters, headers, body, seconds)
    found = yield from _asked(request, tries=1 if key is None else TRIES_MAX)
    return Appended(_position(found), found["records"], found["dead_letters"], found["duplicate"])


def read(
    view: str,
    *,
    where: Sequence[str] = (),
    order: str | None = None,
    limit: int = 100,
    offset: int = 0,
    at_least: Position | None = None,
    at: Position | None = None,
    timeout: Duration = WAIT_SECONDS,
) -> Exchange[Rows]:
    """A page of the rows of a view. A condition is written `column:operator:value`, such as `amount:ge:10`.

    With `at` they are as they were at that position.
    """
    parameters, seconds = _reading(at_least, timeout)
    parameters |= {"where": list(where), "limit": str(limit), "offset": str(offset)}
    if at is not None:
        parameters["at"] = str(at)
    if order is not None:
        parameters["order"] = order
    found = yield from _asked(Request("GET", f"/views/{_part(view)}", parameters, seconds=seconds), tries=TRIES_MAX)
    return Rows(_position(found), found["rows"], offset + len(found["rows"]) >= found["matching"])


def lookup(
    view: str, key: Sequence[object], *, at_least: Position | None = None, timeout: Duration = WAIT_SECONDS
) -> Exchange[Rows]:
    """The rows of a view with a key: none, one, or several if the key is not unique."""
    parameters, seconds = _reading(at_least, timeout)
    path = f"/views/{_part(view)}/rows/{'/'.join(_part(_text(part)) for part in key)}"
    try:
        found = yield from _asked(Request("GET", path, parameters, seconds=seconds), tries=TRIES_MAX)
    except RequestRefused as error:
        if error.code != "no_such_row":
            raise
        return Rows(Position.parse(str(error.details["position"])), [], complete=True)
    return Rows(_position(found), found["rows"], complete=True)


def query(
    sql: str, *, limit: int | None = None, at_least: Position | None = None, timeout: Duration = WAIT_SECONDS
) -> Exchange[Rows]:
    """Runs SQL over all views, as of one position."""
    parameters, seconds = _reading(at_least, timeout)
    if limit is not None:
        parameters["limit"] = str(limit)
    body = json.dumps({"sql": sql}).encode()
    request = Request("POST", "/query", parameters, {"Content-Type": JSON}, body, seconds + WAIT_SECONDS)
    found = yield from _asked(request, tries=TRIES_MAX)
    return Rows(_position(found), found["rows"], not found["cut"])


def sink(name: str, *, at_least: Position | None = None, timeout: Duration = WAIT_SECONDS) -> Exchange[Row]:
    """The state of a sink, once its target has the given position, if any. Raises `SinksBehind`."""
    parameters, seconds = _reading(at_least, timeout)
    found: Row = yield from _asked(
        Request("GET", f"/sinks/{_part(name)}", parameters, seconds=seconds), tries=TRIES_MAX
    )
    return found


def sinks() -> Exchange[Sequence[Row]]:
    """The state of all sinks."""
    found = yield from _asked(Request("GET", "/sinks"), tries=TRIES_MAX)
    return list(found["sinks"])


def wait(position: Position, names: Sequence[str], *, timeout: Duration = WAIT_SECONDS) -> Exchange[None]:
    """Waits until the targets of some sinks have a position. Raises `SinksBehind`."""
    end = time.monotonic() + seconds_of("timeout", timeout)
    for name in names:
        yield from sink(name, at_least=position, timeout=max(0.0, end - time.monotonic()))


def changes(view: str, after: str | None) -> Request:
    """The request for the stream of a view's changes; after the change with an id, if there is one."""
    headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": after})
    return Request("GET", f"/views/{_part(view)}/changes", {}, headers)


def check(response: Response) -> Any:
    """The body of an answer. Raises the error if it is one."""
    try:
        found = json.loads(response.body)
    except ValueError:
        found = {}
    if response.status < 400:
        return found
    about = dict(found.get("error", {})) if isinstance(found, dict) else {}
    code, message = str(about.pop("code", "http")), str(about.pop("message", f"The server answered {response.status}."))
    if code == "sinks_behind":
        # The server has done what it was asked to; only the sinks are late.
        raise SinksBehind(str(about["position"]), about["sinks"], float(about["seconds"]))
    kind = ServerUnavailable if response.status in UNAVAILABLE else RequestRefused
    raise kind(message, status=response.status, code=code, hint=str(about.pop("hint", "")), details=about)


def pause_before(attempt: int) -> Pause:
    """How long to wait before an attempt, counted from 1."""
    return Pause(min(PAUSE_SECONDS * 2 ** (attempt - 1), PAUSE_SECONDS_MAX))


def _asked(request: Request, *, tries: int) -> Exchange[Any]:
    """The answer to a request that may be repeated if its answer is lost."""
    lost: AnswerLost | None = None
    for attempt in range(1, tries + 1):
        try:
            response = yield request
            assert response is not None
            return check(response)
        except AnswerLost as error:
            lost = error
        except ServerUnavailable:
            # This try did not happen, but an earlier one may have.
            if lost is None:
                raise
        if attempt < tries:
            yield pause_before(attempt)
    assert lost is not None
    raise lost


def _reading(at_least: Position | None, timeout: Duration) -> tuple[dict[str, str | Sequence[str]], float]:
    if at_least is None:
        return {}, 0.0
    seconds = seconds_of("timeout", timeout)
    return {"at_least": str(at_least), "wait": f"{seconds:g}"}, seconds


def _position(found: Mapping[str, Any]) -> Position:
    return Position.parse(found["position"])


def _part(text: str) -> str:
    return quote(text, safe="")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def _line(row: Row) -> bytes:
    return json.dumps(row, default=_json, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _json(value: object) -> str:
    if isinstance(value, datetime | date | Decimal):
        return _text(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
