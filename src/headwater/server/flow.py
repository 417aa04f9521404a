"""The flow of the whole: sources, topics, views and who reads them as a graph with live figures, samples for charts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from headwater.engine.arrangements import view_sizes
from headwater.engine.publication import Generation
from headwater.server import bodies, sse
from headwater.server.answers import HEARTBEAT_SECONDS, EventStream, answer
from headwater.server.batches import size_json
from headwater.server.endpoint import Answer, Call, Endpoint
from headwater.server.history import Sample
from headwater.server.parameters import Parameter
from headwater.server.pipelines import status
from headwater.server.service import Service
from headwater.server.shapes import ANYTHING, NUMBER, POSITION, TEXT, WHOLE, by_name, many, maybe, thing
from headwater.server.topics import dead_letter_topics

TAG = "Operations"
SECONDS = Parameter(
    "seconds", {"type": "integer", "minimum": 1, "maximum": 86_400, "default": 300}, "How many seconds of samples."
)
NODE = {**thing(id=TEXT, kind=TEXT, name=TEXT), "additionalProperties": True}
EDGE = thing(**{"from": TEXT, "to": TEXT, "per_second": maybe(NUMBER), "lag": maybe(WHOLE)})
FLOW = thing(
    application=TEXT, position=maybe(POSITION), log_position=POSITION, behind=maybe(WHOLE), status=TEXT,
    freshness_seconds=maybe(NUMBER), nodes=many(NODE), edges=many(EDGE),
)  # fmt: skip
SAMPLE = thing(
    at=TEXT, log_position=POSITION, view_position=maybe(POSITION), behind=maybe(WHOLE),
    freshness_seconds=maybe(NUMBER), batch=maybe(WHOLE), batch_seconds=maybe(NUMBER), batch_records=maybe(WHOLE),
    topics=by_name(WHOLE), views=by_name(WHOLE), lag=by_name(WHOLE), sinks=by_name(WHOLE),
)  # fmt: skip


async def flow(call: Call) -> Response:
    if call.wants_events:

        async def current(sample: Sample) -> bytes:
            whole = await call.service.threads.run(graph, call.service)
            return sse.event(whole, name="flow") + sse.event(sample.to_json(), name="sample")

        return _stream(call.service, _each(call.service, current))
    return answer(await call.service.threads.run(graph, call.service))


async def history(call: Call) -> Response:
    if call.wants_events:

        async def shown(sample: Sample) -> bytes:
            return sse.event(sample.to_json(), name="sample")

        return _stream(call.service, _each(call.service, shown))
    samples = call.service.history.since(call["seconds"] or 300)
    return answer({"samples": [one.to_json() for one in samples], "rates": call.service.history.rates()})


def _stream(service: Service, events: AsyncIterator[bytes]) -> EventStream:
    return EventStream(events, stall_seconds=service.limits.stream_stall_seconds_max, on_end=service.open_stream())


async def _each(service: Service, made: Callable[[Sample], Any]) -> AsyncIterator[bytes]:
    """An event for the newest sample, and then for every next one; a slow reader misses those in between."""
    sample = service.history.samples[-1] if service.history.samples else None
    while not service.closing:
        yield sse.HEARTBEAT if sample is None else await made(sample)
        sample = await service.history.next(HEARTBEAT_SECONDS)


def graph(service: Service) -> dict[str, object]:
    """Everything that records go through, from left to right."""
    current = service.reader.current()
    log_position = service.log.position()
    rates = service.history.rates()
    not_kept = service.processes.not_kept()
    defined = {} if current is None else current.definition.views
    sizes = view_sizes(service.history.sizes.state)
    behind = None if current is None else current.position.behind(log_position)
    nodes: list[dict[str, object]] = []
    edges: list[dict[str, object]] = []
    _sources(service, nodes, edges)
    _topics(service, nodes, edges, rates["topics"])
    for view in dict.fromkeys([*defined, *service.app.views]):
        size = size_json(sizes.get(view))
        rate = rates["views"].get(view)
        nodes.append(
            _node(
                "view",
                view,
                per_second=rate,
                size=size,
                verification=service.verifications.state(view),
                not_kept=not_kept.get(view),
            )
        )
        for read in defined[view].reads if view in defined else ():
            kind = "view" if read in defined else "topic"
            edges.append(_edge(kind, read, "view", view, rates[f"{kind}s"].get(read)))
    for view, count in service.subscribers().items():
        if count:
            nodes.append(_node("subscribers", view, count=count))
            edges.append(_edge("view", view, "subscribers", view, rates["views"].get(view)))
    for name, feed in service.app.sinks.items():
        state = feed.status(service.reader)
        nodes.append(_node("sink", name, **asdict(state)))
        edges.append(_edge("view", feed.view, "sink", name, rates["views"].get(feed.view), state.lag))
    return {
        "application": service.app.name,
        "position": None if current is None else str(current.position),
        "log_position": str(log_position),
        "behind": behind,
        "status": status(service, behind),
        "freshness_seconds": _freshness(service, current),
        "nodes": nodes,
        "edges": edges,
    }


def _freshness(service: Service, current: Generation | None) -> float | None:
    """As measured now, or what the newest sample has, which also knows of batches that came and went."""
    now = service.freshness.seconds(current)
    sampled = service.history.samples[-1].freshness_seconds if service.history.samples else None
    return now if now is None or sampled is None else max(now, sampled)


def _sources(service: Service, nodes: list[dict[str, object]], edges: list[dict[str, object]]) -> None:
    for hook in service.app.webhooks_in.values():
        nodes.append(_node("hook", hook.name, style=hook.style))
        edges.append(_edge("hook", hook.name, "topic", hook.topic, None))
    if service.statsd is not None:
        nodes.append(_node("statsd", "statsd", **service.statsd.to_json()))
        edges.append(_edge("statsd", "statsd", "topic", service.statsd.receiver.topic, None))
    topics = [topic.name for topic in service.log.topics()]
    for name, process in service.processes.captures().items():
        source = service.app.sources[name]
        nodes.append(_node("capture", name, running=process.running, source=source.kind))
        edges.extend(_edge("capture", name, "topic", topic, None) for topic in source.topics())
    sent = [topic for topic in topics if service.counters.get("headwater_http_records_total", topic=topic)]
    if sent:
        nodes.append(_node("http", "http"))
        edges.extend(_edge("http", "http", "topic", topic, None) for topic in sent)


def _topics(
    service: Service, nodes: list[dict[str, object]], edges: list[dict[str, object]], rates: Mapping[str, float]
) -> None:
    topics = service.log.topics()
    letters = dead_letter_topics(topics)
    for topic in topics:
        records = sum(end - first for first, end in service.log.offsets(topic.name).values())
        nodes.append(
            _node(
                "topic",
                topic.name,
                table=bool(topic.key),
                is_dead_letter=topic.name in letters,
                records=records,
                per_second=rates.get(topic.name),
                bytes=service.history.sizes.topics.get(topic.name),
            )
        )
        if topic.settings.dead_letter is not None:
            edges.append(_edge("topic", topic.name, "topic", topic.settings.dead_letter, None))
    lag: dict[str, dict[str, int]] = {}
    for one in service.log.lag():
        topic_lag = lag.setdefault(one.group, {})
        topic_lag[one.topic] = topic_lag.get(one.topic, 0) + one.records
    for group, by_topic in lag.items():
        nodes.append(_node("group", group, lag=sum(by_topic.values())))
        edges.extend(
            _edge("topic", topic, "group", group, rates.get(topic), records) for topic, records in by_topic.items()
        )


def _node(kind: str, name: str, **about: object) -> dict[str, object]:
    return {**about, "id": f"{kind}:{name}", "kind": kind, "name": name}


def _edge(
    kind: str, name: str, to_kind: str, to: str, per_second: float | None, lag: int | None = None
) -> dict[str, object]:
    """`lag` is how many records, or changed rows, the reader at the end has still to read."""
    return {"from": f"{kind}:{name}", "to": f"{to_kind}:{to}", "per_second": per_second, "lag": lag}


ENDPOINTS = (
    Endpoint(
        "GET", "/flow", flow, "Live graph of sources, topics and views; every second with Accept: text/event-stream",
        {200: Answer(
            "Nodes and edges; or events `flow`, each followed by its `sample`, as of /history.",
            {bodies.JSON: FLOW, sse.CONTENT_TYPE: TEXT},
        )},
        tag=TAG,
    ),
    Endpoint(
        "GET", "/history", history, "Samples of every second, for charts; or as they are made, as events",
        {200: Answer(
            "Records and changes are counted up: a rate is a difference. Events are called `sample`.",
            {bodies.JSON: thing(samples=many(SAMPLE), rates=ANYTHING), sse.CONTENT_TYPE: TEXT},
        )},
        parameters=(SECONDS,), tag=TAG,
    ),
)  # fmt: skip
