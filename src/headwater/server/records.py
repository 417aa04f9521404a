"""Topics over HTTP: records in, with the position that they are durable at, and records out, once or as they come."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from headwater.engine.sinks.waiting import chosen, names_of
from headwater.errors import RecordsGone, Refused, UsageError
from headwater.log.commit import Committed
from headwater.model.position import Position
from headwater.server import bodies, sse
from headwater.server.answers import HEARTBEAT_SECONDS, EventStream, answer
from headwater.server.endpoint import Answer, Call, Endpoint, json_answer
from headwater.server.failures import bad_request, error_body
from headwater.server.filters import Condition, parse_condition
from headwater.server.pages import Page, Start, read_page
from headwater.server.parameters import READING, TOPIC, WAIT, WHERE, Parameter, limit
from headwater.server.service import Service
from headwater.server.shapes import INSTANT, POSITION, POSITION_TEXT, ROW, TEXT, WHOLE, YES_NO, many, maybe, thing

KEY_PREFIX = "http."
"""Idempotency keys are bookmarks of the log whose names begin so."""
TAG = "Topics"

FROM_PATTERN = (
    r"^(earliest|latest|last:[0-9]{1,6}|offset:[0-9]{1,18}|offsets:[0-9]{1,18}(\.[0-9]{1,18})*"
    rf"|position:{POSITION_TEXT}|time:.+)$"
)
FROM = Parameter(
    "from",
    {"type": "string", "pattern": FROM_PATTERN},
    "Where to begin: earliest, latest, last:N, offset:N, position:N (after it), time:ISO-8601, or a page's `next`.",
)
PARTITION = Parameter("partition", {"type": "integer", "minimum": 0, "maximum": 4095}, "Only this partition.")
KEY = Parameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[ -~]+$"},
    "The same key with the same body is appended once, and answered with the same position.",
    "header",
)
SINKS = Parameter(
    "wait",
    {"type": "string", "minLength": 1, "maxLength": 2000},
    "Sinks, separated by commas: answer when their targets have the records, too.",
)
TIMEOUT = Parameter(
    "timeout", WAIT.shape, "Maximum wait for the sinks in seconds; then 504, with the position of each."
)
LAST_ID = Parameter("Last-Event-ID", {"type": "string", "maxLength": 100_000}, "Continue after this event.", "header")

APPENDED = thing(position=POSITION, records=WHOLE, dead_letters=WHOLE, duplicate=YES_NO)
RECORD = thing(
    partition=WHOLE, offset=WHOLE, position=POSITION, at=INSTANT, deleted=YES_NO, value=maybe(ROW), headers=ROW
)
PAGE = thing(position=POSITION, records=many(RECORD), next=TEXT, end=YES_NO, scanned=WHOLE)


async def append(call: Call) -> Response:
    service, topic, sinks = call.service, call["topic"], names_of(call["wait"] or "")
    chosen(service.app.sinks, sinks)
    async with call.body(service.limits.body_bytes_max) as body:
        with service.append_slot():
            done = await service.threads.append(
                append_body, service, topic, body, call.content_type, call["Idempotency-Key"], call["partition"]
            )
    position = Position.parse(str(done["position"]))
    if sinks:
        await service.sinks_at(sinks, position, service.wait_seconds(call["timeout"]))
    return answer(done, position)


def append_body(
    service: Service, topic: str, body: bytes, content_type: str, key: str | None, partition: int | None
) -> dict[str, object]:
    """Appends the records of a body; what the answer says. Raises `Refused`, `InvalidRecords` and what the log does."""
    settings = service.log.topic(topic).settings
    rows, records = bodies.rows_of(body, content_type, topic, service.limits)
    if key is None and settings.dead_letter is None:
        # Appends that meet share a commit, which is cheapest; only the number of dead letters is not told then.
        position = service.log.append(topic, rows, partition=partition)
        return _appended(service, topic, Committed(position), records)
    if key is None:
        with service.log.commit() as commit:
            commit.append(topic, rows, partition=partition)
        return _appended(service, topic, commit.result, records)
    return append_once(service, topic, rows, key, body, records=records, partition=partition)


def append_once(
    service: Service,
    topic: str,
    rows: bytes | pa.Table | list[dict[str, object]],
    key: str,
    body: bytes,
    *,
    records: int,
    partition: int | None = None,
) -> dict[str, object]:
    """Appends under a key: a second time, also after a crash, nothing happens but the same answer.

    The key is a bookmark that is set in the commit of the records, on condition that there is none. Raises `Refused` if
    the key came with another body.
    """
    name = KEY_PREFIX + hashlib.sha256(f"{topic}\0{key}".encode()).hexdigest()
    with service.log.commit(on_conflict="return") as commit:
        commit.append(topic, rows, partition=partition)
        about = {
            "body": hashlib.sha256(body).hexdigest(),
            "records": records - commit.dead_letters,
            "dead_letters": commit.dead_letters,
            "at": datetime.now(UTC).timestamp(),
        }
        commit.bookmark(name, about, expect=None)
    if commit.conflict is not None:
        return _duplicate(service, name, about)
    return _appended(service, topic, commit.result, records)


def _appended(service: Service, topic: str, done: Committed, records: int) -> dict[str, object]:
    service.counters.add("headwater_http_records_total", records, topic=topic)
    return {
        "position": str(done.position),
        "records": records - done.dead_letters,
        "dead_letters": done.dead_letters,
        "duplicate": False,
    }


def _duplicate(service: Service, name: str, about: Mapping[str, object]) -> dict[str, object]:
    found = service.log.bookmarks.find(name)
    if found is None or not isinstance(found.value, dict):
        raise Refused(409, "key_expired", "The idempotency key has just expired.", hint="Send it again.")
    if found.value["body"] != about["body"]:
        raise Refused(
            422,
            "key_reused",
            "The idempotency key was used with a different body before.",
            hint="Use a new key for a new body.",
        )
    return {
        "position": str(found.position),
        "records": found.value["records"],
        "dead_letters": found.value.get("dead_letters", 0),
        "duplicate": True,
    }


def forget_keys(service: Service) -> int:
    """Forgets idempotency keys that are older than they are remembered; how many."""
    oldest = datetime.now(UTC).timestamp() - service.limits.keys_kept_seconds
    old = [
        one.name
        for one in service.log.bookmarks.beginning(KEY_PREFIX)
        if isinstance(one.value, dict) and one.value.get("at", 0) < oldest
    ]
    if old:
        service.log.bookmarks.forget(old)
    return len(old)


async def read(call: Call) -> Response:
    service = call.service
    conditions = [parse_condition(text) for text in call["where"]]
    most = min(call["limit"] or 100, service.limits.page_rows_max)
    position = await service.log_at(call["at_least"], call["wait"])
    start = parse_start(call["from"] or "earliest", call["partition"])
    if call.wants_events:
        if call["Last-Event-ID"]:
            start = parse_start(f"offsets:{call['Last-Event-ID']}", call["partition"])
        first = await service.threads.run(read_page, service.log, call["topic"], start, 0, [], 0)
        events = _follow(service, call["topic"], first.next, conditions, call["partition"])
        return EventStream(events, stall_seconds=service.limits.stream_stall_seconds_max, on_end=service.open_stream())
    page = await service.threads.run(
        read_page, service.log, call["topic"], start, most, conditions, service.limits.scan_records_max
    )
    return answer(_page(page, position), position)


def _page(page: Page, position: Position) -> dict[str, object]:
    return {
        "position": str(position),
        "records": page.records,
        "next": f"offsets:{page.cursor}",
        "end": page.end,
        "scanned": page.scanned,
    }


async def _follow(
    service: Service, topic: str, offsets: Mapping[int, int], conditions: list[Condition], partition: int | None
) -> AsyncIterator[bytes]:
    """Records as they come. It reads at its reader's own pace, so that a slow one costs nobody anything."""
    seen = await service.threads.run(service.log.position)
    while not service.closing:
        start = Start("offsets", offsets=offsets, partition=partition)
        try:
            page = await service.threads.run(
                read_page, service.log, topic, start, PAGE_ROWS, conditions, service.limits.scan_records_max
            )
        except RecordsGone as gone:
            yield sse.event(error_body(gone), name="gone")
            offsets = {**offsets, gone.partition: gone.last + 1}
            continue
        except UsageError as error:
            yield sse.event(error_body(error), name="error")
            return
        offsets = page.next
        if page.records:
            yield sse.event({"records": page.records}, name="records", mark=page.cursor)
        while page.end and not service.closing:
            if not await service.log_moves.moved(seen, HEARTBEAT_SECONDS):
                yield sse.HEARTBEAT
                continue
            seen = service.log_moves.position or seen
            try:
                ends = await service.ends(topic)
            except UsageError:
                break  # the next page tells
            # Most commits are of other topics: only what has moved is read.
            if any(end > offsets.get(partition, 0) for partition, end in ends.items()):
                break


PAGE_ROWS = 500
"""Records of one event of a topic that is followed."""


def parse_start(text: str, partition: int | None) -> Start:
    """Where a reading begins. Raises `Refused`."""
    kind, _, value = text.partition(":")
    if kind in ("earliest", "latest"):
        return Start(kind, partition=partition)
    if kind in ("last", "offset"):
        return Start(kind, number=int(value), partition=partition)
    if kind == "offsets":
        if not re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})*", value):
            raise bad_request("That is not where a reading can continue.", "Use the id of an event of this topic.")
        return Start(kind, offsets=dict(enumerate(int(part) for part in value.split("."))), partition=partition)
    if kind == "position":
        return Start(kind, position=Position.parse(value), partition=partition)
    try:
        at = datetime.fromisoformat(value)
    except ValueError as error:
        raise bad_request(f"{value[:60]!r} is not a time.", "Write it as 2026-01-31T12:00:00Z.") from error
    if not 1970 <= at.year <= 9000:
        raise bad_request(f"{value[:60]!r} is out of range.")
    return Start(kind, at=at if at.tzinfo is not None else at.replace(tzinfo=UTC), partition=partition)


_RECORD_BODY: dict[str, Any] = {"type": "object", "description": "One record: its columns, `_deleted`, `_headers`."}
_LINES: dict[str, Any] = {"type": "string", "description": "One JSON object per line."}
_ARROW: dict[str, Any] = {"type": "string", "format": "binary", "description": "An Arrow IPC stream, not compressed."}

ENDPOINTS = (
    Endpoint(
        "POST",
        "/topics/{topic}/records",
        append,
        "Append records; the answer comes when they are durable",
        {200: json_answer("They are durable at this position.", APPENDED)},
        "write",
        (TOPIC, PARTITION, KEY, SINKS, TIMEOUT),
        {
            bodies.JSON: {"anyOf": [_RECORD_BODY, many(_RECORD_BODY)]},
            **dict.fromkeys(bodies.JSON_LINES, _LINES),
            bodies.ARROW: _ARROW,
        },
        tag=TAG,
        about="All records are appended, or none, unless the topic has a dead-letter topic, which takes those that do "
        "not fit. The body may have Content-Encoding: gzip. With `wait` the answer is 504 and `sinks_behind` if not "
        "every sink has the records in time: they are durable then, at the `position` of the error.",
    ),
    Endpoint(
        "GET",
        "/topics/{topic}/records",
        read,
        "Read records, or follow them with Accept: text/event-stream",
        {
            200: Answer(
                "A page, in commit order; or events `records`, `gone` (retention was faster) and `error`.",
                {bodies.JSON: PAGE, sse.CONTENT_TYPE: TEXT},
            )
        },
        parameters=(TOPIC, FROM, limit(10_000), PARTITION, WHERE, *READING, LAST_ID),
        tag=TAG,
    ),
)
