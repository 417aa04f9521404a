"""Who runs: the process that keeps the views up to date, and those that capture databases, by their heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.app import App
from headwater.server.batches import instant
from headwater.server.shapes import ANYTHING, NUMBER, TEXT, WHOLE, YES_NO, maybe, thing
from headwater.system.clock import Clock
from headwater.system.heartbeat import Heartbeat, read_heartbeat

PROCESS = thing(
    running=YES_NO, state=TEXT, pid=maybe(WHOLE), host=maybe(TEXT), started_at=maybe(TEXT), beat_at=maybe(TEXT),
    silent_seconds=maybe(NUMBER), ended_at=maybe(TEXT), error=ANYTHING,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Process:
    """A process that should run, as it is at a time: `running`, `ended`, `silent` (killed, or stuck), `never_seen`."""

    kind: str
    name: str
    heartbeat: Heartbeat | None
    now: int

    @property
    def running(self) -> bool:
        return self.heartbeat is not None and self.heartbeat.runs(self.now)

    @property
    def state(self) -> str:
        if self.heartbeat is None:
            return "never_seen"
        if self.running:
            return "running"
        return "silent" if self.heartbeat.ended_at is None else "ended"

    @property
    def silent_seconds(self) -> float | None:
        """How long ago it was last heard of; None if that never was."""
        return None if self.heartbeat is None else self.heartbeat.silent_seconds(self.now)

    @property
    def about(self) -> Mapping[str, Any]:
        """What it had to tell last."""
        return {} if self.heartbeat is None else self.heartbeat.about

    def problem(self) -> dict[str, object] | None:
        """Why it does not run, as an error; None if it does."""
        if self.running:
            return None
        what = "The pipeline" if self.kind == "pipeline" else f"The capture of {self.name!r}"
        last, hint = self.heartbeat, "Start it with `headwater run`."
        if last is None:
            message = f"{what} is not running, and has not been seen yet."
        elif last.ended_at is not None:
            reason = f" {last.error['message']}" if last.error else ""
            message = f"{what} is not running: it ended {self.silent_seconds:.0f} s ago.{reason}"
        else:
            who = f"process {last.pid} on {last.host}"
            message = f"{what} is not running: {who} was last heard of {self.silent_seconds:.0f} s ago."
        return {"code": "not_running", "message": message, "hint": hint}

    def to_json(self) -> dict[str, object]:
        last = self.heartbeat
        return {
            "running": self.running,
            "state": self.state,
            "pid": None if last is None else last.pid,
            "host": None if last is None else last.host,
            "started_at": None if last is None else instant(last.started_at),
            "beat_at": None if last is None else instant(last.beat_at),
            "silent_seconds": self.silent_seconds,
            "ended_at": None if last is None or last.ended_at is None else instant(last.ended_at),
            "error": None if last is None else last.error,
        }


class Processes:
    """The processes that an application needs. Looks when it is asked, and remembers nothing."""

    def __init__(self, app: App, clock: Clock) -> None:
        self._app, self._clock = app, clock

    def pipeline(self) -> Process | None:
        """What keeps the views up to date; None if there is none."""
        return self._look("pipeline", self._app.name, self._app.directory) if self._app.views else None

    def captures(self) -> dict[str, Process]:
        """What captures each source."""
        return {name: self._look("capture", name, source.home.directory) for name, source in self._app.sources.items()}

    def all(self) -> list[Process]:
        pipeline = self.pipeline()
        return [*([] if pipeline is None else [pipeline]), *self.captures().values()]

    def not_kept(self) -> dict[str, str]:
        """The views that could be planned and not run, each with the reason, as the last pipeline has told."""
        pipeline = self.pipeline()
        told = {} if pipeline is None else pipeline.about.get("not_kept", {})
        return {view: reason for view, reason in told.items() if view in self._app.views}

    def _look(self, kind: str, name: str, directory: Path) -> Process:
        return Process(kind, name, read_heartbeat(directory), self._clock.now())
