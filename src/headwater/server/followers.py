"""Followers: everything that a log keeps records for, how much that is, and what each of them has missed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from headwater.errors import UnknownFollower
from headwater.log.followers import Follower, Missed
from headwater.log.lag import Lag
from headwater.model.encoding import format_instant
from headwater.server.answers import answer
from headwater.server.endpoint import Call, Endpoint, json_answer
from headwater.server.failures import bad_request
from headwater.server.groups import LAG, lag_json
from headwater.server.parameters import READING, Parameter
from headwater.server.service import Service
from headwater.server.shapes import INSTANT, POSITION, TEXT, WHOLE, many, maybe, thing

TAG = "Followers"
MISSED = thing(
    topic=TEXT, partition=WHOLE, first=WHOLE, last=WHOLE, records=WHOLE, reason=TEXT, at=INSTANT,
)  # fmt: skip
FOLLOWER = thing(
    name=TEXT, kind=TEXT, position=maybe(POSITION), moved_at=maybe(INSTANT), partitions=many(LAG), missed=many(MISSED),
)  # fmt: skip
HOLD = thing(follower=TEXT, view=TEXT, generation=WHOLE, behind_batch=WHOLE, bytes=WHOLE)
FOUND = thing(position=POSITION, followers=many(FOLLOWER), views=many(HOLD))
NAME = Parameter(
    "name", {"type": "string", "minLength": 1, "maxLength": 300}, "The follower's name, as this endpoint lists it."
)


async def list_followers(call: Call) -> Response:
    service = call.service
    position = await service.log_at(call["at_least"], call["wait"])
    found = await service.threads.run(_found, service)
    return answer({"position": str(position), **found}, position)


def _found(service: Service) -> dict[str, object]:
    log = service.log
    lags, missed = [*log.lag(), *log.followers.lag()], log.followers.missed()
    return {
        "followers": [_follower(one, lags, missed) for one in log.followers.all()],
        "views": [
            {"follower": one.follower, "view": one.view, "generation": one.generation, "behind_batch": one.low,
             "bytes": one.bytes}
            for one in service.app.holds()
        ],
    }  # fmt: skip


def _follower(one: Follower, lags: Iterable[Lag], missed: Iterable[Missed]) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "position": None if one.position is None else str(one.position),
        "moved_at": None if one.moved_at is None else format_instant(one.moved_at.replace(microsecond=0)),
        "partitions": [lag_json(lag) for lag in lags if (lag.kind, lag.group) == (one.kind, one.name)],
        "missed": [_missed(each) for each in missed if (each.kind, each.follower) == (one.kind, one.name)],
    }


def _missed(one: Missed) -> dict[str, object]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "first": one.first,
        "last": one.last,
        "records": one.records,
        "reason": one.reason,
        "at": format_instant(one.at.replace(microsecond=0)),
    }


async def release(call: Call) -> Response:
    service, name = call.service, call["name"]
    if name is None:
        raise bad_request("Which follower?", "Name it: ?name=shop/1")
    await service.threads.append(_release, service, name)
    return answer({"name": name})


def _release(service: Service, name: str) -> None:
    followers = service.log.followers
    if followers.find(name) is None:
        raise UnknownFollower(name, [one.name for one in followers.all() if one.kind != "group"])
    followers.release([name])


ENDPOINTS = (
    Endpoint(
        "GET", "/followers", list_followers, "Everything that records are kept for: how far it is, and what it missed",
        {200: json_answer("Followers of topics, groups included; and followers of views.", FOUND)},
        parameters=READING, tag=TAG,
    ),
    Endpoint(
        "DELETE", "/followers", release, "Keep nothing any longer for a follower that no longer exists",
        {200: json_answer("Nothing is kept for it.", thing(name=TEXT))}, "admin", (NAME,), tag=TAG,
    ),
)  # fmt: skip
