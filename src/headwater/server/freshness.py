"""Freshness, measured when it is asked for: how old the oldest thing is that the views do not show yet."""

from __future__ import annotations

from contextlib import suppress

from headwater.engine.publication import Generation
from headwater.engine.reading import Reader
from headwater.errors import HeadwaterError
from headwater.log.port import Log
from headwater.model.position import Position
from headwater.server.processes import Process, Processes
from headwater.system.clock import Clock, microseconds


class Freshness:
    """How stale the views of an application are, in seconds. Safe for use by several threads."""

    def __init__(self, log: Log, reader: Reader, processes: Processes, clock: Clock) -> None:
        self._log, self._reader, self._processes, self._clock = log, reader, processes, clock
        # The next commit after a position never changes: it is looked up once.
        self._oldest: tuple[Position, int] | None = None

    def seconds(self, current: Generation | None) -> float | None:
        """0 if the views show everything and everything runs; None if nothing is published yet.

        Otherwise the age of the oldest commit that they do not have, or how long something has not been running.
        """
        if current is None:
            return None
        since = [self._last_seen(process) for process in self._processes.all() if not process.running]
        if not self._log.position() <= current.position:
            since.append(self._unseen_since(current))
        return max(((self._clock.now() - at) / 1e6 for at in since), default=0.0) if since else 0.0

    def _last_seen(self, process: Process) -> int:
        last = process.heartbeat
        if last is not None:
            return last.ended_at or last.beat_at
        published = self._reader.published(1)
        return published[-1].published_at if published else self._clock.now()

    def _unseen_since(self, current: Generation) -> int:
        if self._oldest is None or self._oldest[0] != current.position:
            times = [self._first_after(topic, current.position) for topic in current.definition.topics_read]
            # Commits without records of these topics: they count from when they were noticed.
            self._oldest = (current.position, min((at for at in times if at is not None), default=self._clock.now()))
        return self._oldest[1]

    def _first_after(self, topic: str, position: Position) -> int | None:
        """When the first record of a topic after a position was committed; None if there is none."""
        # Readers report what was dropped or deleted by retention.
        with suppress(HeadwaterError):
            at = self._log.first_after(topic, position)
            return None if at is None else microseconds(at)
        return None
