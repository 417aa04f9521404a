"""How far a sink is, in a file: what has arrived, the delivery that is under way, and what is wrong."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.engine.sinks.port import Mark, State
from headwater.errors import ExternalError
from headwater.model.encoding import format_instant
from headwater.model.position import Position
from headwater.system.storage import Storage, storage_error

DIRECTORY = "sinks"
RATE_SECONDS = 10.0
"""Rates are averages over about this many seconds."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the `view` was delivered; `mark` is None before it was begun with. Instants are ISO 8601."""

    view: str
    mark: Mark | None = None
    deliveries: int = 0
    under_way: str | None = None
    status: State = "running"
    error: str | None = None
    failed_at: str | None = None
    delivered_at: str | None = None
    failures: int = 0
    rows: int = 0
    """Changed rows that were delivered, ever."""
    rate: float = 0.0
    """How many of them a second, of late, as of `rated_at` (seconds since 1970)."""
    rated_at: float = 0.0
    done: int = 0
    total: int = 0
    """How much of a long delivery has arrived, in rows; both 0 if none is under way."""
    reset: bool = False
    """Whether the target gets everything again, whatever position it has."""

    def counting(self, rows: int, now: float) -> Progress:
        """The progress after this many more rows have arrived."""
        if not self.rated_at:
            return replace(self, rows=self.rows + rows, rate=rows / RATE_SECONDS, rated_at=now)
        return replace(self, rows=self.rows + rows, rate=self.rate_at(now) + rows / RATE_SECONDS, rated_at=now)

    def rate_at(self, now: float) -> float:
        """The rate, which sinks while nothing arrives."""
        return self.rate * math.exp(min(0.0, (self.rated_at - now) / RATE_SECONDS))


class ProgressFile:
    """Reads and replaces the progress of one sink, each time as a whole."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory / DIRECTORY
        self.lock = self.directory / f"{name}.lock"
        self._path = self.directory / f"{name}.json"

    def load(self, view: str) -> Progress:
        """What was saved last of this view. Raises `ExternalError` if it cannot be read."""
        try:
            held: dict[str, Any] = json.loads(self._path.read_bytes())
            found = Progress(**{**held, "mark": mark_of(held["mark"])})
        except FileNotFoundError:
            return Progress(view)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ExternalError(
                f"The progress of a sink, {self._path}, cannot be read.",
                hint="Check its permissions; or remove it, and the sink starts over.",
            ) from error
        if found.view == view:
            return found
        # It was a sink of another view before: only the numbers of its deliveries continue.
        return Progress(view, deliveries=found.deliveries + (found.under_way is not None))

    def remove(self) -> None:
        """Forgets the progress. Raises `StorageFailed`."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(error, self._path) from error

    def changed_at(self) -> int:
        """When it was saved last, in nanoseconds; 0 if never. A look costs nothing, so that many may wait for it."""
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return 0

    def save(self, progress: Progress) -> None:
        """Returns when it is on the disk. Raises `DiskFull`, `StorageFailed`."""
        fresh = self._path.with_suffix(".new")
        held = {**asdict(replace(progress, mark=None)), "mark": mark_json(progress.mark)}
        try:
            with fresh.open("wb") as file:
                file.write(json.dumps(held).encode())
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
            Storage().sync_directory(self.directory)
        except OSError as error:
            raise storage_error(error, self._path) from error


def mark_json(mark: Mark | None) -> dict[str, object] | None:
    """A mark as JSON keeps it."""
    if mark is None:
        return None
    ahead = None if mark.next is None else str(mark.next)
    return {"position": str(mark.position), "generation": mark.generation, "next": ahead, "rows": mark.rows}


def mark_of(held: dict[str, Any] | None) -> Mark | None:
    """The mark that `mark_json` gave."""
    if held is None:
        return None
    ahead = None if held["next"] is None else Position.parse(held["next"])
    return Mark(Position.parse(held["position"]), held["generation"], ahead, held["rows"])


def now_text() -> str:
    """The time now as progress has it: ISO 8601, to the second."""
    return format_instant(datetime.now(UTC).replace(microsecond=0))
