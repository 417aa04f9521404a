"""Asking a sink for something: done here if no process feeds it, and by the process that does otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headwater.engine.parts import Report
from headwater.engine.sinks.control import Control, Request
from headwater.errors import HeadwaterError, RowRefused, TargetFailed, UsageError
from headwater.system.lock import FileLock

LOOK_SECONDS = 0.05
"""How often it is looked for the answer."""


def carried_out(
    control: Control,
    lock_file: Path,
    request: Request,
    here: Callable[[], Mapping[str, Any]],
    report: Callable[[int, int], None],
) -> Mapping[str, Any]:
    """What came of a request, which `here` carries out while no other process can. Raises what it raises there."""
    lock, asked = FileLock(lock_file), False
    try:
        while True:
            with lock.try_hold() as alone:
                if alone:
                    return here()
            if not asked:
                control.ask(request)
                asked = True
            control.renew(request)
            said = control.answered(request) or {}
            if "done" in said:
                return dict(said["done"])
            if "error" in said:
                raise _error(said["error"])
            if "progress" in said:
                report(*said["progress"])
            time.sleep(LOOK_SECONDS)
    finally:
        control.withdraw(request)
        lock.close()


def progress_of(report: Report, sink: str) -> Callable[[int, int], None]:
    """Tells a report how far a sink is."""
    return lambda done, total: report.progress(f"sink {sink}", done, total)


def _error(error: Mapping[str, Any]) -> HeadwaterError:
    """What the process that feeds the sink has raised."""
    if error["kind"] == "target":
        return TargetFailed(error["message"].rstrip("."), "refused")
    if error["kind"] == "row":
        return RowRefused(error["reason"])
    return UsageError(error["message"], hint=error["hint"])
