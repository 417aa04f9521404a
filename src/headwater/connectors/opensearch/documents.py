"""Documents: the rows of a view as lines of `_bulk`, each with an id from its key and a version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.connectors.opensearch.requests import Answer, reason_of
from headwater.engine.sinks.key_texts import key_texts
from headwater.model.encoding import json_rows

BULK_ROWS_MAX = 2000
BULK_BYTES_MAX = 5 << 20
"""What one request brings, unless a single document is larger."""

_TAKEN = frozenset({200, 201})
_ROWS_OWN = frozenset({400, 413})
"""Statuses of a document that is wrong itself; of others the cluster is the cause."""
_CONFLICT, _MISSING = 409, 404


@dataclass(slots=True)
class Bulk:
    """One request: its lines, and the place in its table of each document."""

    lines: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    size: int = 0

    @property
    def text(self) -> str:
        return "".join(self.lines)


@dataclass(slots=True)
class Outcome:
    """What became of a request: the places of documents that were refused, with the reasons, and what else failed."""

    places: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    failed: Answer | None = None


def upserts(rows: pa.Table, key: Sequence[str], version: int) -> Iterator[Bulk]:
    """Requests that put rows; a document of this version or a later one stays as it is."""
    for first in range(0, rows.num_rows, BULK_ROWS_MAX):
        part = rows.slice(first, BULK_ROWS_MAX)
        lines = (
            f"{_action('index', each, version)}{_json(row)}\n"
            for each, row in zip(key_texts(part, key), json_rows(part), strict=True)
        )
        yield from _requests(lines, first)


def deletes(ids: Sequence[str], version: int) -> Iterator[Bulk]:
    """Requests that delete documents, unless they have this version or a later one."""
    for first in range(0, len(ids), BULK_ROWS_MAX):
        lines = (_action("delete", each, version) for each in ids[first : first + BULK_ROWS_MAX])
        yield from _requests(lines, first)


def outcome_of(answer: Answer, places: Sequence[int]) -> Outcome:
    """What an answer of `_bulk` says about each document. A version that is there already is one that has arrived."""
    found = Outcome()
    if not answer.said["errors"]:
        return found
    for place, item in zip(places, answer.said["items"], strict=True):
        ((action, told),) = item.items()
        status = told["status"]
        if status in _TAKEN or status == _CONFLICT or (action == "delete" and status in {_MISSING, *_ROWS_OWN}):
            continue
        if status in _ROWS_OWN:
            found.places.append(place)
            found.reasons.append(reason_of(told["error"]))
        else:
            found.failed = Answer(status, told)
    return found


def _requests(lines: Iterator[str], first: int) -> Iterator[Bulk]:
    bulk = Bulk()
    for place, line in enumerate(lines, start=first):
        size = len(line.encode("utf-8", "surrogatepass"))
        if bulk.lines and bulk.size + size > BULK_BYTES_MAX:
            yield bulk
            bulk = Bulk()
        bulk.lines.append(line)
        bulk.places.append(place)
        bulk.size += size
    if bulk.lines:
        yield bulk


def _action(action: str, identity: str, version: int) -> str:
    return _json({action: {"_id": identity, "version": version, "version_type": "external"}}) + "\n"


# One for all: `json.dumps` with options makes an encoder for each call.
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
