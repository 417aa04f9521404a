"""Dead letters: records that did not fit their topic, and records that a view refuses; sent again, or discarded.

What became of one is a bookmark of the log, set on condition that there is none, in the commit that appends it again:
so it is sent once, whatever crashes, and two people who do it at the same time do it once.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from starlette.responses import Response

from headwater.engine.publication import Excluded
from headwater.engine.sinks.feed import Feed
from headwater.errors import Conflict, Refused, UnknownTopic, UsageError
from headwater.model.encoding import format_instant
from headwater.model.position import Position
from headwater.server import bodies
from headwater.server.answers import answer
from headwater.server.endpoint import Call, Endpoint, json_answer
from headwater.server.failures import bad_request
from headwater.server.pages import Start, read_page
from headwater.server.parameters import READING, Parameter, limit, path
from headwater.server.service import Service
from headwater.server.shapes import ANYTHING, INSTANT, POSITION, TEXT, WHOLE, many, maybe, thing
from headwater.server.topics import dead_letter_topics

TAG = "Dead letters"
SCANNED_MAX = 100_000
"""Letters of one topic that a list looks through."""
BOOKMARK_PREFIX = "dead."
State = Literal["open", "sent", "discarded", "superseded"]

STATE = Parameter(
    "state",
    {"type": "string", "enum": ["open", "sent", "discarded", "superseded", "any"], "default": "open"},
    "Only letters in this state.",
)
ID = path("id", "The letter's id, from the list.")
LETTER = thing(
    id=TEXT, kind=TEXT, topic=TEXT, view=maybe(TEXT), sink=maybe(TEXT), reason=TEXT, at=maybe(INSTANT),
    partition=WHOLE, offset=WHOLE, state=TEXT, dealt_with_at=maybe(INSTANT), original=ANYTHING,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where a letter is: a record of a dead-letter topic, or the record that a view refuses."""

    topic: str
    partition: int
    offset: int
    view: str | None = None

    def __str__(self) -> str:
        parts = [self.topic, str(self.partition), str(self.offset)]
        return "~".join(parts if self.view is None else [*parts, self.view])

    @classmethod
    def parse(cls, text: str) -> Place:
        """What `str` gave. Raises `Refused`."""
        topic, *numbers = text.split("~")[:3]
        view = text.split("~")[3:]
        if len(numbers) != 2 or len(view) > 1 or not all(n.isascii() and n.isdigit() and len(n) < 19 for n in numbers):
            raise _unknown(text)
        return cls(topic, int(numbers[0]), int(numbers[1]), view[0] if view else None)

    @property
    def bookmark(self) -> str:
        return BOOKMARK_PREFIX + hashlib.sha256(str(self).encode()).hexdigest()


async def list_letters(call: Call) -> Response:
    service = call.service
    position = await service.log_at(call["at_least"], call["wait"])
    most = min(call["limit"] or 100, service.limits.page_rows_max)
    found, counts = await service.threads.run(_list, service, call["state"] or "open", most)
    return answer({"position": str(position), "letters": found, "counts": counts}, position)


def _list(service: Service, state: str, most: int) -> tuple[list[dict[str, object]], dict[str, int]]:
    """The newest letters in a state, and how many there are in each state."""
    counts = {"open": 0, "sent": 0, "discarded": 0, "superseded": 0}
    found = []
    for letter in letters(service):
        counts[str(letter["state"])] += 1
        if state in ("any", letter["state"]):
            found.append(letter)
    found.sort(key=lambda letter: str(letter["at"] or ""), reverse=True)
    return found[:most], counts


def letters(service: Service) -> Iterator[dict[str, object]]:
    """All letters, but for those of a topic that come after the first `SCANNED_MAX`."""
    dealt = {one.name: one.value for one in service.log.bookmarks.beginning(BOOKMARK_PREFIX)}
    for topic in sorted(dead_letter_topics(service.log.topics()) | _of_sinks(service).keys()):
        page = read_page(service.log, topic, Start("earliest"), SCANNED_MAX, [], SCANNED_MAX)
        yield from (_rejected(service, topic, record, dealt) for record in page.records)
    for one in service.reader.excluded():
        yield _refused(service, one, dealt)


def _of_sinks(service: Service) -> dict[str, list[Feed]]:
    """The topics of rows that targets refuse, as far as there are any, each with its sinks."""
    there = {topic.name for topic in service.log.topics()}
    found: dict[str, list[Feed]] = {}
    for feed in service.app.sinks.values():
        if feed.sink.dead_letter in there:
            found.setdefault(str(feed.sink.dead_letter), []).append(feed)
    return found


def _sink_of(service: Service, topic: str, view: str) -> Feed | None:
    """The sink whose target has refused a row of a view. Sinks of one view that share a topic are not told apart."""
    return next((feed for feed in _of_sinks(service).get(topic, ()) if feed.view == view), None)


def _rejected(service: Service, topic: str, record: dict[str, object], dealt: dict[str, object]) -> dict[str, object]:
    """A letter of a dead-letter topic: of a record that did not fit, or of a row that the target of a sink refused."""
    value = record["value"]
    assert isinstance(value, dict), "a dead-letter topic has no key, so nothing in it is deleted"
    place = Place(topic, int(str(record["partition"])), int(str(record["offset"])))
    about: dict[str, object] = {"kind": "rejected", "topic": value["topic"], "view": None, "sink": None}
    feed = _sink_of(service, topic, str(value["topic"]))
    if feed is not None:
        about = {"kind": "sink", "topic": topic, "view": feed.view, "sink": feed.sink_name}
    about |= {"reason": value["reason"], "at": record["at"]}
    return _letter(place, about, dealt, {"base64": value["original"], "text": _text(str(value["original"]))})


def _refused(service: Service, one: Excluded, dealt: dict[str, object]) -> dict[str, object]:
    place = Place(one.topic, one.partition, one.offset, one.view)
    record: dict[str, object] | None = None
    try:
        start = Start("offsets", offsets={one.partition: one.offset}, partition=one.partition)
        page = read_page(service.log, one.topic, start, 1, [], 1)
        record = page.records[0] if page.records and page.records[0]["offset"] == one.offset else None
    except UsageError:
        record = None  # retention was faster
    at = None if record is None else record["at"]
    about = {"kind": "refused", "topic": one.topic, "view": one.view, "sink": None, "reason": one.reason, "at": at}
    return _letter(place, about, dealt, None if record is None else {"value": record["value"]})


def _text(encoded: str) -> str | None:
    """Bytes that are text."""
    try:
        return base64.b64decode(encoded).decode()
    except UnicodeDecodeError:
        return None


def _letter(
    place: Place, about: dict[str, object], dealt: dict[str, object], original: dict[str, object] | None
) -> dict[str, object]:
    outcome = dealt.get(place.bookmark)
    done = outcome if isinstance(outcome, dict) else {}
    return {
        "id": str(place),
        **about,
        "partition": place.partition,
        "offset": place.offset,
        "state": done.get("state", "open"),
        "dealt_with_at": done.get("at"),
        "original": original,
    }


async def show(call: Call) -> Response:
    return answer(await call.service.threads.run(find, call.service, call["id"]))


def find(service: Service, identity: str) -> dict[str, object]:
    """One letter. Raises `Refused` if there is none."""
    place = Place.parse(identity)
    outcome = service.log.bookmarks.value(place.bookmark)
    dealt = {place.bookmark: outcome}
    if place.view is not None:
        for one in service.reader.excluded():
            if Place(one.topic, one.partition, one.offset, one.view) == place:
                return _refused(service, one, dealt)
        raise _unknown(identity)
    try:
        if place.topic not in dead_letter_topics(service.log.topics()) | _of_sinks(service).keys():
            raise _unknown(identity)
        start = Start("offsets", offsets={place.partition: place.offset}, partition=place.partition)
        page = read_page(service.log, place.topic, start, 1, [], 1)
    except (UnknownTopic, UsageError) as error:
        raise _unknown(identity) from error
    if not page.records or page.records[0]["offset"] != place.offset:
        raise _unknown(identity)
    return _rejected(service, place.topic, page.records[0], dealt)


async def send(call: Call) -> Response:
    service = call.service
    async with call.body(service.limits.body_bytes_max) as body:
        with service.append_slot():
            done = await service.threads.append(_send, service, call["id"], body)
    return answer(done, Position.parse(str(done["position"])))


def _send(service: Service, identity: str, body: bytes) -> dict[str, object]:
    fixed = bodies.elements(body)
    if len(fixed) != 1 or not fixed[0].startswith(b"{"):
        raise bad_request("The body is one object: the record as it shall be appended.", "Take the original, fixed.")
    letter = find(service, identity)
    place = Place.parse(identity)
    if letter["kind"] == "sink":
        return _send_to_sink(service, letter, place, fixed[0])
    with service.log.commit(on_conflict="return") as commit:
        commit.append(str(letter["topic"]), fixed[0])
        commit.bookmark(place.bookmark, _outcome("sent"), expect=None)
    if commit.conflict is not None:
        raise _dealt_with(identity, commit.conflict)
    return {
        "id": identity,
        "state": "sent",
        "position": str(commit.position),
        "dead_letters": commit.result.dead_letters,
    }


def _send_to_sink(service: Service, letter: dict[str, object], place: Place, body: bytes) -> dict[str, object]:
    """Puts a row into the target again. What the view has now wins, so that nothing older takes its place.

    It may happen twice if this process ends before it is noted, and is the same then.
    """
    original, feed = letter["original"], service.app.sinks[str(letter["sink"])]
    assert isinstance(original, dict)
    if letter["state"] != "open":
        raise Refused(409, "dealt_with", f"Dead letter {letter['id']!r} is already {letter['state']}.")
    sent = feed.send(json.loads(original["text"]), json.loads(body))
    with service.log.commit(on_conflict="return") as commit:
        commit.bookmark(place.bookmark, _outcome("sent" if sent else "superseded"), expect=None)
    if commit.conflict is not None:
        raise _dealt_with(str(place), commit.conflict)
    return {
        "id": letter["id"],
        "state": "sent" if sent else "superseded",
        "position": str(commit.position),
        "dead_letters": 0,
    }


async def discard(call: Call) -> Response:
    done = await call.service.threads.append(_discard, call.service, call["id"])
    return answer(done, Position.parse(str(done["position"])))


def _discard(service: Service, identity: str) -> dict[str, object]:
    find(service, identity)
    with service.log.commit(on_conflict="return") as commit:
        commit.bookmark(Place.parse(identity).bookmark, _outcome("discarded"), expect=None)
    if commit.conflict is not None:
        raise _dealt_with(identity, commit.conflict)
    return {"id": identity, "state": "discarded", "position": str(commit.position), "dead_letters": 0}


def _outcome(state: State) -> dict[str, str]:
    return {"state": state, "at": format_instant(datetime.now(UTC))}


def _dealt_with(identity: str, conflict: Conflict) -> Refused:
    state = conflict.actual.get("state") if isinstance(conflict.actual, dict) else json.dumps(conflict.actual)
    return Refused(409, "dealt_with", f"Dead letter {identity!r} is already {state}.")


def _unknown(identity: str) -> Refused:
    return Refused(404, "unknown_dead_letter", f"There is no dead letter {identity[:100]!r}.")


DONE = thing(id=TEXT, state=TEXT, position=POSITION, dead_letters=WHOLE)
COUNTS = thing(open=WHOLE, sent=WHOLE, discarded=WHOLE, superseded=WHOLE)

ENDPOINTS = (
    Endpoint(
        "GET", "/dead-letters", list_letters, "Records that do not fit or that views refuse, rows that targets refuse",
        {200: json_answer("Newest first.", thing(position=POSITION, letters=many(LETTER), counts=COUNTS))},
        parameters=(STATE, limit(10_000), *READING), tag=TAG,
    ),
    Endpoint(
        "GET", "/dead-letters/{id}", show, "One dead letter", {200: json_answer("The letter.", LETTER)},
        parameters=(ID,), tag=TAG,
    ),
    Endpoint(
        "POST", "/dead-letters/{id}/send", send, "Send a dead letter again, to its topic or sink, as the body has it",
        {200: json_answer("It is durable at this position.", DONE)}, "admin", (ID,),
        {bodies.JSON: {"type": "object"}}, tag=TAG,
        about="A row that the target of a sink has refused (`kind` is `sink`) is put into the target. If the view has "
        "a later version of the row by now, nothing is sent, and the letter is `superseded`.",
    ),
    Endpoint(
        "POST", "/dead-letters/{id}/discard", discard, "Mark a dead letter as dealt with",
        {200: json_answer("It is no longer in the list.", DONE)}, "admin", (ID,), tag=TAG,
    ),
)  # fmt: skip
