"""Consumer groups: where each of them is and who is in it; moved to another place, and deleted."""

from __future__ import annotations

from dataclasses import asdict

from starlette.responses import Response

from headwater.log.groups import Member
from headwater.log.lag import Lag, LagLimits
from headwater.log.port import Start as LogStart
from headwater.model.position import Position
from headwater.server import bodies
from headwater.server.answers import answer
from headwater.server.endpoint import Call, Endpoint, json_answer
from headwater.server.failures import bad_request
from headwater.server.pages import Start
from headwater.server.parameters import READING, Parameter, path
from headwater.server.records import PARTITION, parse_start
from headwater.server.service import Service
from headwater.server.shapes import NUMBER, POSITION, POSITION_TEXT, TEXT, WHOLE, many, maybe, thing

TAG = "Groups"
LAG = thing(
    group=TEXT, topic=TEXT, partition=WHOLE, member=maybe(TEXT), offset=WHOLE, end=WHOLE, records=WHOLE, bytes=WHOLE,
    seconds=NUMBER, gone=WHOLE, risk=maybe(NUMBER), kind=TEXT, held=WHOLE, alarms=many(TEXT),
)  # fmt: skip
MEMBER = thing(name=TEXT, topics=many(TEXT), lease_left_seconds=NUMBER)
DETAIL = thing(position=POSITION, group=TEXT, members=many(MEMBER), partitions=many(LAG))
MOVE = thing(topic=TEXT, partition=WHOLE, before=maybe(WHOLE), after=WHOLE)
MOVED = thing(position=POSITION, group=TEXT, moves=many(MOVE))

PLACES = "Where to continue: earliest, latest, offset:N, position:N (after it), time:ISO-8601."
TO_PATTERN = rf"^(earliest|latest|offset:[0-9]{{1,18}}|position:{POSITION_TEXT}|time:.+)$"
TARGET = thing(to={"type": "string", "pattern": TO_PATTERN, "description": PLACES})
GROUP = path("group", "The group's name.")
ONLY = Parameter("topic", {"type": "string", "minLength": 1, "maxLength": 200}, "Only in this topic.", repeated=True)
_SWITCH = {"type": "string", "enum": ["true", "false"], "default": "false"}
FORCE = Parameter("force", _SWITCH, "Even if it has active members: what they have not committed is refused.")
DRY_RUN = Parameter("dry_run", _SWITCH, "Return the old and the new offsets, and change nothing.")


def lag_json(lag: Lag) -> dict[str, object]:
    return {**asdict(lag), "alarms": lag.alarms(LagLimits())}


async def list_groups(call: Call) -> Response:
    service = call.service
    position = await service.log_at(call["at_least"], call["wait"])
    found = await service.threads.run(service.log.lag)
    return answer({"position": str(position), "groups": [lag_json(one) for one in found]}, position)


async def describe(call: Call) -> Response:
    service = call.service
    position = await service.log_at(call["at_least"], call["wait"])
    found = await service.threads.run(_detail, service, call["group"])
    return answer({"position": str(position), **found}, position)


def _detail(service: Service, group: str) -> dict[str, object]:
    members, lag = service.log.members(group), service.log.lag(group)
    return {
        "group": group,
        "members": [_member(one) for one in members],
        "partitions": [lag_json(one) for one in lag],
    }


def _member(member: Member) -> dict[str, object]:
    left = round(member.lease_left.total_seconds(), 3)
    return {"name": member.name, "topics": list(member.topics), "lease_left_seconds": left}


async def reset(call: Call) -> Response:
    to = await call.text_member("to", PLACES)
    moved = await call.service.threads.append(_reset, call, to)
    return answer(moved, Position.parse(str(moved["position"])))


def _reset(call: Call, to: str) -> dict[str, object]:
    log = call.service.log
    moves = log.reset_group(
        call["group"],
        _target(to, call["partition"]),
        topics=call["topic"] or None,
        force=call["force"] == "true",
        dry_run=call["dry_run"] == "true",
    )
    return {"position": str(log.position()), "group": call["group"], "moves": [asdict(move) for move in moves]}


def _target(text: str, partition: int | None) -> LogStart:
    """Where a group is to go. Raises `Refused`."""
    if text in ("earliest", "latest"):
        target: LogStart = "earliest" if text == "earliest" else "latest"
    else:
        kind, _, value = text.partition(":")
        if kind not in ("offset", "position", "time") or (kind == "offset" and not _is_offset(value)):
            raise bad_request(f"{text[:60]!r} is not a place.", PLACES)
        target = _place(parse_start(text, None))
    if partition is None:
        return target
    if not isinstance(target, int):
        raise bad_request("A partition goes with an offset.", "Leave it out, or write offset:N.")
    return {partition: target}


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _place(start: Start) -> LogStart:
    if start.position is not None:
        return start.position
    return start.number if start.at is None else start.at


async def delete(call: Call) -> Response:
    service, group = call.service, call["group"]
    await service.threads.append(lambda: service.log.delete_group(group, force=call["force"] == "true"))
    return answer({"group": group})


ENDPOINTS = (
    Endpoint(
        "GET", "/groups", list_groups, "How far every consumer group is behind, per partition",
        {200: json_answer("By group.", thing(position=POSITION, groups=many(LAG)))}, parameters=READING, tag=TAG,
    ),
    Endpoint(
        "GET", "/groups/{group}", describe, "A consumer group: its active members, and where it is in each partition",
        {200: json_answer("The group.", DETAIL)}, parameters=(GROUP, *READING), tag=TAG,
    ),
    Endpoint(
        "POST", "/groups/{group}/reset", reset, "Move a consumer group to another place; its members continue there",
        {200: json_answer("Old and new offsets, per partition.", MOVED)}, "admin",
        (GROUP, ONLY, PARTITION, FORCE, DRY_RUN), {bodies.JSON: TARGET}, tag=TAG,
    ),
    Endpoint(
        "DELETE", "/groups/{group}", delete, "Delete a consumer group and its offsets",
        {200: json_answer("It is deleted.", thing(group=TEXT))}, "admin", (GROUP, FORCE), tag=TAG,
    ),
)  # fmt: skip
