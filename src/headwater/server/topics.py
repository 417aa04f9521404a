"""Topics: what there is, how it is defined, where each partition is, and who reads it how far behind."""

from __future__ import annotations

from starlette.responses import Response

from headwater.log.size import PartitionSize
from headwater.log.topic import Topic
from headwater.model.ddl import format_ddl, format_type
from headwater.model.encoding import format_instant
from headwater.server.answers import answer
from headwater.server.endpoint import Call, Endpoint, json_answer
from headwater.server.groups import LAG, lag_json
from headwater.server.parameters import READING, TOPIC
from headwater.server.service import Service
from headwater.server.shapes import ANYTHING, COLUMN, NUMBER, POSITION, TEXT, WHOLE, YES_NO, many, maybe, thing

TAG = "Topics"
SUMMARY = thing(
    name=TEXT, kind=TEXT, key=many(TEXT), partitions=WHOLE, records=WHOLE, records_per_second=NUMBER,
    bytes=maybe(WHOLE), dead_letter=maybe(TEXT), is_dead_letter=YES_NO,
)  # fmt: skip
DETAIL = thing(
    position=POSITION,
    topic=SUMMARY,
    columns=many(COLUMN),
    event_time=maybe(TEXT),
    partition_by=many(TEXT),
    schemas=many(thing(version=WHOLE, schema=TEXT)),
    settings=ANYTHING,
    partitions=many(
        thing(
            partition=WHOLE,
            first=WHOLE,
            end=WHOLE,
            records=WHOLE,
            bytes=WHOLE,
            segments=WHOLE,
            first_at=maybe(TEXT),
            last_at=maybe(TEXT),
        )
    ),
    groups=many(LAG),
)


async def list_topics(call: Call) -> Response:
    service = call.service
    position = await service.log_at(call["at_least"], call["wait"])
    found = await service.threads.run(_all, service)
    return answer({"position": str(position), "topics": found}, position)


def _all(service: Service) -> list[dict[str, object]]:
    topics = service.log.topics()
    letters = dead_letter_topics(topics)
    return [summary(service, topic, letters) for topic in topics]


def dead_letter_topics(topics: list[Topic]) -> set[str]:
    """The topics to which records go that do not fit others."""
    return {topic.settings.dead_letter for topic in topics if topic.settings.dead_letter is not None}


def summary(service: Service, topic: Topic, letters: set[str]) -> dict[str, object]:
    """A topic in a list."""
    return {
        "name": topic.name,
        "kind": "table" if topic.key else "stream",
        "key": list(topic.key),
        "partitions": topic.partitions,
        "records": sum(end - first for first, end in service.log.offsets(topic.name).values()),
        "records_per_second": round(service.history.rates()["topics"].get(topic.name, 0.0), 3),
        "bytes": service.history.sizes.topics.get(topic.name),
        "dead_letter": topic.settings.dead_letter,
        "is_dead_letter": topic.name in letters,
    }


async def describe(call: Call) -> Response:
    service = call.service
    position = await service.log_at(call["at_least"], call["wait"])
    found = await service.threads.run(_detail, service, call["topic"])
    return answer({"position": str(position), **found}, position)


def _detail(service: Service, name: str) -> dict[str, object]:
    log = service.log
    topic = log.topic(name)
    offsets = log.offsets(name)
    described = topic.describe()
    settings = {name: value for name, value in described.items() if name in topic.settings.__slots__}
    return {
        "topic": summary(service, topic, dead_letter_topics(log.topics())),
        "columns": [{"name": field.name, "type": format_type(field.type)} for field in topic.schema],
        "event_time": topic.event_time,
        "partition_by": list(topic.partition_by),
        "schemas": [{"version": number, "schema": format_ddl(one)} for number, one in enumerate(topic.schemas)],
        "settings": settings,
        "partitions": [
            _partition(size, *offsets[size.partition]) for size in log.sizes(name) if size.partition in offsets
        ],
        "groups": [lag_json(one) for one in log.lag() if one.topic == name],
    }


def _partition(size: PartitionSize, first: int, end: int) -> dict[str, object]:
    return {
        "partition": size.partition,
        "first": first,
        "end": end,
        "records": end - first,
        "bytes": size.bytes,
        "segments": size.segments,
        "first_at": None if size.first_at is None else format_instant(size.first_at),
        "last_at": None if size.last_at is None else format_instant(size.last_at),
    }


ENDPOINTS = (
    Endpoint(
        "GET", "/topics", list_topics, "All topics",
        {200: json_answer("By name.", thing(position=POSITION, topics=many(SUMMARY)))}, parameters=READING, tag=TAG,
    ),
    Endpoint(
        "GET", "/topics/{topic}", describe, "A topic: schema, its history, settings, partitions, groups and their lag",
        {200: json_answer("The topic.", DETAIL)}, parameters=(TOPIC, *READING), tag=TAG,
    ),
)  # fmt: skip
