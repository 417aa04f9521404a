"""Sinks over HTTP: how far each of them is, waiting until they have a position, and what people do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from starlette.responses import Response

from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.waiting import found
from headwater.model.position import Position
from headwater.server.answers import answer
from headwater.server.endpoint import Call, Endpoint, Handler, json_answer
from headwater.server.parameters import READING, Parameter, path
from headwater.server.service import Service
from headwater.server.shapes import INSTANT, NUMBER, POSITION, TEXT, WHOLE, YES_NO, many, maybe, thing

TAG = "Sinks"
SINK = thing(
    name=TEXT, view=TEXT, sink=TEXT, target=TEXT, status=TEXT, paused=YES_NO, position=maybe(POSITION),
    lag=maybe(WHOLE), lag_seconds=maybe(NUMBER), rows=WHOLE, rows_per_second=NUMBER, done=WHOLE, total=WHOLE,
    deliveries=WHOLE, failures=WHOLE, error=maybe(TEXT), failed_at=maybe(INSTANT), delivered_at=maybe(INSTANT),
    dead_letter=maybe(TEXT), holds_content=YES_NO,
)  # fmt: skip
AUDIT = {**thing(sink=TEXT, status=TEXT), "additionalProperties": True}
NAME = path("sink", "The sink's name.")
_SWITCH = {"type": "string", "enum": ["true", "false"], "default": "false"}
REPAIR = Parameter("repair", _SWITCH, "Also repair exactly the rows that differ.")


def sink_json(service: Service, name: str, feed: Feed) -> dict[str, object]:
    """A sink, as it is."""
    state = asdict(feed.status(service.reader))
    return {"name": name, **state, "paused": feed.control.is_paused, "holds_content": feed.sink.holds_content}


async def list_sinks(call: Call) -> Response:
    service = call.service
    if call["at_least"] is not None:
        await _wait(call, list(service.app.sinks))
    shown = await service.threads.run(_all, service)
    return answer({"sinks": shown})


def _all(service: Service) -> list[dict[str, object]]:
    return [sink_json(service, name, feed) for name, feed in service.app.sinks.items()]


async def show(call: Call) -> Response:
    service, name = call.service, call["sink"]
    feed = found(service.app.sinks, name)
    if call["at_least"] is not None:
        await _wait(call, [name])
    return answer(await service.threads.run(sink_json, service, name, feed))


async def _wait(call: Call, names: list[str]) -> None:
    service = call.service
    await service.sinks_at(names, Position.parse(call["at_least"]), service.wait_seconds(call["wait"]))


def _doing(what: Callable[[Feed], None]) -> Handler:
    async def handle(call: Call) -> Response:
        service, name = call.service, call["sink"]
        feed = found(service.app.sinks, name)
        # It may wait for the process that feeds the sink, which no read should wait for.
        await service.threads.append(what, feed)
        return answer(await service.threads.run(sink_json, service, name, feed))

    return handle


async def audit(call: Call) -> Response:
    return answer(call.service.audits.ask(call["sink"], repair=call["repair"] == "true"), status=202)


async def audited(call: Call) -> Response:
    found(call.service.app.sinks, call["sink"])
    return answer(call.service.audits.state(call["sink"]))


def _operation(name: str, what: Callable[[Feed], None], summary: str, about: str = "") -> Endpoint:
    return Endpoint(
        "POST", f"/sinks/{{sink}}/{name}", _doing(what), summary, {200: json_answer("The sink.", SINK)}, "admin",
        (NAME,), tag=TAG, about=about,
    )  # fmt: skip


ENDPOINTS = (
    Endpoint(
        "GET", "/sinks", list_sinks, "All sinks: position, lag in rows and seconds, rate, errors",
        {200: json_answer("In the order of their definition.", thing(sinks=many(SINK)))}, parameters=READING, tag=TAG,
        about="With `at_least`, the answer comes once every sink's target has that position; otherwise 504, with the "
        "position of each sink.",
    ),
    Endpoint(
        "GET", "/sinks/{sink}", show, "One sink", {200: json_answer("The sink.", SINK)},
        parameters=(NAME, *READING), tag=TAG,
    ),
    _operation("pause", Feed.pause, "Pause a sink until it is resumed; its changes are kept"),
    _operation("resume", Feed.resume, "Resume a sink that was paused, or that gave up"),
    _operation("reset", Feed.reset, "Bring the content of the view again, whatever the target has"),
    Endpoint(
        "POST", "/sinks/{sink}/audit", audit, "Compare a target with its view, at one position, while the sink runs",
        {202: json_answer("It runs; GET tells what became of it.", AUDIT)}, "admin", (NAME, REPAIR), tag=TAG,
    ),
    Endpoint(
        "GET", "/sinks/{sink}/audit", audited, "The state and the last result of a sink's audit",
        {200: json_answer("`status` is never, running, done or failed.", AUDIT)}, parameters=(NAME,), tag=TAG,
    ),
)  # fmt: skip
