"""Whether the server is ready: what is wrong with each part, and whether that keeps it from being used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import HeadwaterError
from headwater.server.failures import error_body
from headwater.server.pipelines import failure_of
from headwater.server.processes import Process
from headwater.server.service import Service
from headwater.system.background import background_states
from headwater.system.heartbeat import error_of

RESTART_SECONDS_MAX = 60.0
"""A process that fell silent less than this long ago may be on its way back: the server is degraded only."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, as an error, and whether nobody should be sent here because of it."""

    error: Mapping[str, object]
    fatal: bool = True


def problems(service: Service) -> dict[str, Problem | None]:
    """What is wrong with each part; None where nothing is."""
    found: dict[str, Problem | None] = {
        "log": _log(service), "views": _views(service), "pipeline": _pipeline(service),
        "not_kept": _not_kept(service), "upkeep": _upkeep(service), "background": _background(),
    }  # fmt: skip
    for name, process in service.processes.captures().items():
        found[f"capture {name}"] = _process(process)
    return found


def status_of(found: Mapping[str, Problem | None]) -> str:
    """In one word: `ready`, `degraded` or `not_ready`."""
    wrong = [problem for problem in found.values() if problem is not None]
    if any(problem.fatal for problem in wrong):
        return "not_ready"
    return "degraded" if wrong else "ready"


def _log(service: Service) -> Problem | None:
    try:
        service.log.position()
    except HeadwaterError as error:
        return _failed(error)
    return None


def _views(service: Service) -> Problem | None:
    try:
        if service.app.views and service.reader.position() is None:
            return Problem({"code": "not_yet", "message": "Nothing is published yet.", "hint": "Wait for it."})
    except HeadwaterError as error:
        return _failed(error)
    return None


def _pipeline(service: Service) -> Problem | None:
    failure = failure_of(service)
    if failure is not None:
        return Problem(failure)
    process = service.processes.pipeline()
    return None if process is None else _process(process)


def _process(process: Process) -> Problem | None:
    error = process.problem()
    if error is None:
        return None
    silent = process.silent_seconds
    return Problem(error, fatal=silent is None or silent > RESTART_SECONDS_MAX)


def _not_kept(service: Service) -> Problem | None:
    views = service.processes.not_kept()
    if not views:
        return None
    listed = "; ".join(f"{view!r}: {reason}" for view, reason in views.items())
    hint = "Change their SQL, or take them out; the other views are kept."
    error = {"code": "not_kept", "message": f"Views that are not kept up to date: {listed}", "hint": hint}
    return Problem({**error, "views": views}, fatal=False)


def _upkeep(service: Service) -> Problem | None:
    error = upkeep_error(service)
    return None if error is None else Problem(error, fatal=False)


def upkeep_error(service: Service) -> Mapping[str, object] | None:
    """Why upkeep of the log failed last, here or where the pipeline runs; None if it did not."""
    failure = service.log.upkeep_failure
    if failure is not None:
        return error_of(failure)
    process = service.processes.pipeline()
    told: Mapping[str, object] | None = process.about.get("upkeep") if process is not None and process.running else None
    return told


def _background() -> Problem | None:
    down = [state.name for state in background_states() if state.is_down]
    if not down:
        return None
    message = f"Background work that has failed or is about to restart: {', '.join(down)}."
    return Problem({"code": "restarting", "message": message, "hint": "The server's log says why."}, fatal=False)


def _failed(error: HeadwaterError) -> Problem:
    about = error_body(error)["error"]
    assert isinstance(about, dict)
    return Problem(about)
