"""Pipelines, verifications, captures and StatsD: what runs, how far it is, and what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from headwater.engine.arrangements import owner_of, renamed
from headwater.engine.publication import Generation
from headwater.engine.sources import Source
from headwater.errors import HeadwaterError
from headwater.model.encoding import format_instant
from headwater.server.answers import answer
from headwater.server.batches import batch_json, instant, size_json
from headwater.server.candidates import BUILD, build_of
from headwater.server.endpoint import Call, Endpoint, json_answer
from headwater.server.failures import error_body
from headwater.server.parameters import READING, VIEW
from headwater.server.processes import PROCESS
from headwater.server.service import Service
from headwater.server.shapes import (
    ANYTHING,
    BATCH,
    NUMBER,
    POSITION,
    SIZE,
    TEXT,
    WHOLE,
    YES_NO,
    by_name,
    many,
    maybe,
    thing,
)
from headwater.server.views import check_view

TAG = "Operations"
BATCHES_SHOWN = 100
CAPTURE_SECONDS_MAX = 5.0
"""How long a database may take to say how its capture is."""

BOOKS = thing(topic=TEXT, **{"in": WHOLE}, out=WHOLE, late=WHOLE, late_by_seconds=NUMBER, future=WHOLE)
PIPELINE = thing(
    name=TEXT, status=TEXT, runs_here=YES_NO, process=maybe(PROCESS), error=ANYTHING, failed_at=maybe(TEXT),
    retries=maybe(WHOLE), not_kept=by_name(TEXT), position=maybe(POSITION), log_position=POSITION, behind=maybe(WHOLE),
    freshness_seconds=maybe(NUMBER), last_published_at=maybe(TEXT), batches=many(BATCH), generations=many(ANYTHING),
    state=by_name(SIZE), excluded=WHOLE, books=many(BOOKS), build=maybe(BUILD),
)  # fmt: skip
SOURCE = thing(name=TEXT, process=PROCESS, status=ANYTHING, error=ANYTHING)
VERIFICATION = {**thing(view=TEXT, status=TEXT), "additionalProperties": True}


async def pipelines(call: Call) -> Response:
    service = call.service
    position = await service.log_at(call["at_least"], call["wait"])
    found = await service.threads.run(pipeline_json, service)
    return answer({"position": str(position), "pipelines": [found]}, position)


def pipeline_json(service: Service) -> dict[str, object]:
    """The pipeline of the application."""
    reader, running, process = service.reader, service.running, service.processes.pipeline()
    current, log_position = reader.current(), service.log.position()
    batches = [batch_json(one) for one in reader.published(BATCHES_SHOWN)]
    behind = None if current is None else current.position.behind(log_position)
    return {
        "name": service.app.name,
        "status": status(service, behind),
        "runs_here": running.runs_here,
        "process": None if process is None else process.to_json(),
        "error": failure_of(service),
        "failed_at": _failed_at(service),
        "retries": None if process is None else process.about.get("retries"),
        "not_kept": service.processes.not_kept(),
        "position": None if current is None else str(current.position),
        "log_position": str(log_position),
        "behind": behind,
        "freshness_seconds": service.freshness.seconds(current),
        "last_published_at": batches[-1]["published_at"] if batches else None,
        "batches": batches,
        "generations": [
            {
                "id": one.id,
                "status": one.status,
                "batch": one.batch,
                "position": str(one.position),
                "created_at": instant(one.created_at),
                "views": list(one.definition.views),
            }
            for one in reader.generations()
        ],
        "state": _state_json(service, current),
        "excluded": len(reader.excluded()),
        "books": [one.to_json() for one in service.app.books()],
        "build": build_of(service),
    }


def _state_json(service: Service, current: Generation | None) -> dict[str, object]:
    """The size of each part of the state: `view/NAME`, or the number of an operator and what it keeps."""
    operators = {} if current is None else current.definition.explanation.operators
    numbers = {one.name: str(one.number) for one in operators.values() if one.view is None}
    return {
        renamed(part, numbers.get(owner_of(part), owner_of(part))): size_json(size)
        for part, size in service.history.sizes.state.items()
    }


def status(service: Service, behind: int | None) -> str:
    """In one word. What does not run is not up to date, whatever was published before."""
    process = service.processes.pipeline()
    if failure_of(service) is not None:
        return "failed"
    if process is not None and not process.running:
        return "waiting" if behind is None else "not_running"
    if behind is None:
        return "starting"
    if not all(capture.running for capture in service.processes.captures().values()):
        return "capture_not_running"
    return "up_to_date" if behind == 0 else "behind"


def failure_of(service: Service) -> Mapping[str, object] | None:
    """What ended the pipeline, here or in another process; None if nothing did."""
    if service.running.failure is not None:
        about = error_body(service.running.failure)["error"]
        assert isinstance(about, dict)
        return about
    process = service.processes.pipeline()
    return None if process is None or process.heartbeat is None else process.heartbeat.error


def _failed_at(service: Service) -> str | None:
    if service.running.failed_at is not None:
        return format_instant(service.running.failed_at)
    process = service.processes.pipeline()
    last = None if process is None else process.heartbeat
    return None if last is None or last.error is None or last.ended_at is None else instant(last.ended_at)


async def verify(call: Call) -> Response:
    await call.service.threads.run(check_view, call.service, call["view"])
    return answer(call.service.verifications.ask(call["view"]), status=202)


async def verification(call: Call) -> Response:
    await call.service.threads.run(check_view, call.service, call["view"])
    return answer(call.service.verifications.state(call["view"]))


async def capture(call: Call) -> Response:
    sources = call.service.app.sources.items()
    found = await asyncio.gather(*(_source(call.service, name, source) for name, source in sources))
    return answer({"sources": found})


async def _source(service: Service, name: str, source: Source) -> dict[str, Any]:
    process = service.processes.captures()[name].to_json()
    try:
        async with asyncio.timeout(CAPTURE_SECONDS_MAX):
            status = await service.threads.run(source.status)
    except TimeoutError:
        message = f"The database did not answer within {CAPTURE_SECONDS_MAX:g} s."
        return {
            "name": name,
            "process": process,
            "status": None,
            "error": {"code": "no_answer", "message": message, "hint": ""},
        }
    except HeadwaterError as error:
        return {"name": name, "process": process, "status": None, **error_body(error)}
    shown = {**asdict(status), "details": dict(status.details)}
    return {"name": name, "process": process, "status": shown, "error": None}


async def statsd(call: Call) -> Response:
    listener = call.service.statsd
    return answer({"statsd": None if listener is None else listener.to_json()})


ENDPOINTS = (
    Endpoint(
        "GET", "/pipelines", pipelines, "How far the pipeline is, its last batches, its state, and what is wrong",
        {200: json_answer("The pipeline of this application.", thing(position=POSITION, pipelines=many(PIPELINE)))},
        parameters=READING, tag=TAG,
    ),
    Endpoint(
        "POST", "/views/{view}/verify", verify, "Compare a view with its SQL as a batch query over the log",
        {202: json_answer("It is asked for; GET tells what became of it.", VERIFICATION)}, "admin", (VIEW,), tag=TAG,
    ),
    Endpoint(
        "GET", "/views/{view}/verify", verification, "The state and the last result of a view's verification",
        {200: json_answer("`status` is never, waiting, running, done or failed.", VERIFICATION)},
        parameters=(VIEW,), tag=TAG,
    ),
    Endpoint(
        "GET", "/capture", capture, "The databases that are captured, who captures them, and how far they are",
        {200: json_answer("By source.", thing(sources=many(SOURCE)))},
        tag=TAG,
    ),
    Endpoint(
        "GET", "/statsd", statsd, "What came by StatsD, and what was lost on the way",
        {200: json_answer("Null if the application has no receiver.", thing(statsd=ANYTHING))}, tag=TAG,
    ),
)  # fmt: skip
