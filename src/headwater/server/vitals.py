"""Figures of health for Prometheus, on which the alert rules rest: who runs, how stale it is, and what fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping

from headwater.engine.publication import Generation
from headwater.server.counters import Family, counter, gauge
from headwater.server.processes import Process
from headwater.server.readiness import upkeep_error
from headwater.server.service import Service
from headwater.server.topics import dead_letter_topics
from headwater.system.background import background_states


def vitals(service: Service, current: Generation | None) -> Iterator[Family]:
    """All of them, measured now."""
    yield from _freshness(service, current)
    yield from _pipeline(service)
    yield from _captures(service)
    yield from _upkeep(service)
    yield from _dead_letters(service)
    yield from _late(service)
    usage = shutil.disk_usage(service.log.state_directory)
    yield gauge("headwater_disk_free_bytes", "Free room on the disk of the log.", [({}, usage.free)])
    yield gauge("headwater_disk_free_ratio", "The same as a part of the disk.", [({}, usage.free / usage.total)])


def _freshness(service: Service, current: Generation | None) -> Iterator[Family]:
    seconds = service.freshness.seconds(current)
    if seconds is not None:
        about = (
            "Age of the oldest commit that the views lack, or how long something has not been running; 0 if neither."
        )
        yield gauge("headwater_freshness_seconds", about, [({}, seconds)])
    published = service.reader.published(1)
    waited = published[-1].freshness_seconds if published else None
    if waited is not None:
        about = "From a commit to its publication in the views, of the last batch."
        yield gauge("headwater_batch_freshness_seconds", about, [({}, waited)])


def _pipeline(service: Service) -> Iterator[Family]:
    process = service.processes.pipeline()
    if process is None:
        return
    yield gauge("headwater_pipeline_running", "1 if a pipeline runs.", [({}, float(process.running))])
    if process.silent_seconds is not None:
        about = "How long ago the pipeline was last heard of."
        yield gauge("headwater_pipeline_silent_seconds", about, [({}, process.silent_seconds)])
    retries = process.about.get("retries")
    if retries is not None:
        about = "Batches retried because a Spark process was lost."
        yield counter("headwater_pipeline_retries_total", about, [({}, retries)])
    not_kept = service.processes.not_kept()
    about = "1 if a view can be planned and not run, and is left out."
    yield gauge(
        "headwater_view_not_kept", about, [({"view": view}, float(view in not_kept)) for view in service.app.views]
    )


def _captures(service: Service) -> Iterator[Family]:
    captures = service.processes.captures()
    if not captures:
        return
    running = [({"source": name}, float(process.running)) for name, process in captures.items()]
    yield gauge("headwater_capture_running", "1 if a process captures the source.", running)
    silent = [({"source": name}, process.silent_seconds) for name, process in captures.items()]
    about = "How long ago the capture of the source was last heard of."
    yield gauge("headwater_capture_silent_seconds", about, [(at, value) for at, value in silent if value is not None])
    answers = service.sources.answers()
    about = "1 if the database has answered within the last minute."
    yield gauge(
        "headwater_capture_answers",
        about,
        [({"source": name}, float(one is not None)) for name, one in answers.items()],
    )
    known = {name: status for name, status in answers.items() if status is not None}
    for figure, about in (
        ("bytes_behind", "Bytes of WAL that are not captured yet."),
        ("seconds_behind", "How long ago the last captured transaction was, while there are others."),
        ("bytes_retained", "Bytes of WAL that the database keeps for the capture."),
    ):
        figures = [({"source": name}, getattr(status, figure)) for name, status in known.items()]
        yield gauge(f"headwater_capture_{figure}", about, [(at, float(one)) for at, one in figures if one is not None])
    alarms = [({"source": name}, float(len(status.alarms))) for name, status in known.items()]
    yield gauge("headwater_capture_alarms", "What `headwater capture status` warns of.", alarms)


def _upkeep(service: Service) -> Iterator[Family]:
    failing = float(upkeep_error(service) is not None)
    yield gauge("headwater_upkeep_failing", "1 if the last round of the log's upkeep failed.", [({}, failing)])
    states = background_states()
    down = [({"name": state.name}, float(state.is_down)) for state in states]
    yield gauge("headwater_background_restarting", "1 if background work of the server failed.", down)
    restarts = [({"process": "server", "name": state.name}, float(state.restarts)) for state in states]
    for process in service.processes.all():
        restarts += [({"process": _title(process), "name": name}, n) for name, n in _restarts(process).items()]
    about = "Restarts of background work after an unexpected error."
    yield counter("headwater_background_restarts_total", about, restarts)


def _title(process: Process) -> str:
    return "pipeline" if process.kind == "pipeline" else f"capture {process.name}"


def _restarts(process: Process) -> Mapping[str, int]:
    return {} if process.heartbeat is None else process.heartbeat.restarts


def _late(service: Service) -> Iterator[Family]:
    books = service.app.books()
    if books:
        about = "Records of topics of which late ones are dropped, up to the position of the views."
        yield counter("headwater_judged_records_total", about, [({"topic": one.topic}, one.records) for one in books])
        about = "Those of them that were dropped: they came too late, or are from the future."
        kinds = [
            (one.topic, kind, count) for one in books for kind, count in (("late", one.late), ("future", one.future))
        ]
        figures = [({"topic": topic, "reason": kind}, count) for topic, kind, count in kinds]
        yield counter("headwater_late_records_total", about, figures)


def _dead_letters(service: Service) -> Iterator[Family]:
    topics = dead_letter_topics(service.log.topics())
    rejected = sum(end for topic in topics for _, end in service.log.offsets(topic).values())
    about = "Records that did not fit their topic, and records that views refuse."
    kinds = (("rejected", rejected), ("refused", len(service.reader.excluded())))
    yield counter("headwater_dead_letters_total", about, [({"kind": kind}, float(count)) for kind, count in kinds])
