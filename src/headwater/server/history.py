"""How things were: a sample each second of positions, records, changes, freshness and lag, for charts; bounded."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headwater.engine.manifest import Size
from headwater.engine.publication import Generation, Publication
from headwater.engine.reading import Reader
from headwater.engine.sinks.feed import Feed
from headwater.errors import HeadwaterError
from headwater.log.port import Log
from headwater.model.encoding import format_instant
from headwater.model.position import Position
from headwater.server.freshness import Freshness
from headwater.server.threads import Threads
from headwater.system.background import kept

SAMPLE_SECONDS = 1.0
SIZES_EVERY = 10
"""Sizes on disk are looked up once in this many samples."""
BATCHES_LOOKED_AT = 100
"""Batches that one sample takes in at most."""
RATE_SECONDS = 5
"""Rates are over this many seconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """How things were at one moment. Records and changes are counted from the beginning of the sampling."""

    at: datetime
    log_position: Position
    view_position: Position | None
    behind: int | None
    freshness_seconds: float | None
    batch: int | None
    batch_seconds: float | None
    batch_records: int | None
    topics: dict[str, int]
    views: dict[str, int]
    lag: dict[str, int]
    sinks: dict[str, int]

    def to_json(self) -> dict[str, object]:
        return {
            "at": format_instant(self.at),
            "log_position": str(self.log_position),
            "view_position": None if self.view_position is None else str(self.view_position),
            "behind": self.behind,
            "freshness_seconds": self.freshness_seconds,
            "batch": self.batch,
            "batch_seconds": self.batch_seconds,
            "batch_records": self.batch_records,
            "topics": self.topics,
            "views": self.views,
            "lag": self.lag,
            "sinks": self.sinks,
        }


@dataclass(slots=True)
class Sizes:
    """What is on the disk, as of some seconds ago at most."""

    topics: dict[str, int] = field(default_factory=dict)
    state: dict[str, Size] = field(default_factory=dict)


class History:
    """Samples, the newest last. Its methods belong to the event loop; `sample` runs in a thread."""

    def __init__(
        self,
        log: Log,
        reader: Reader,
        threads: Threads,
        fresh: Freshness,
        seconds_max: int,
        feeds: Callable[[], Mapping[str, Feed]],
    ) -> None:
        self._feeds = feeds
        self._log, self._reader, self._threads, self._fresh = log, reader, threads, fresh
        self.samples: deque[Sample] = deque(maxlen=max(2, int(seconds_max / SAMPLE_SECONDS)))
        self.sizes = Sizes()
        self._changed: Counter[str] = Counter()
        self._seen: tuple[int, int] | None = None
        self._last: Publication | None = None
        self._published: list[Publication] = []
        self._count = 0
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(kept("history", self._run))

    def release(self) -> None:
        """Lets nobody wait for the next sample."""
        if self._task is not None:
            self._task.cancel()
        self._wake()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def next(self, seconds: float) -> Sample | None:
        """The next sample; None if there was none for so long."""
        moved = self._moved
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await moved.wait()
            return self.samples[-1] if self.samples else None
        return None

    def since(self, seconds: int) -> list[Sample]:
        """The samples of the last seconds, the oldest first."""
        return list(self.samples)[-max(1, int(seconds / SAMPLE_SECONDS)) :]

    def rates(self) -> dict[str, dict[str, float]]:
        """Records of topics and changed rows of views, per second, over the last few seconds."""
        recent = self.since(RATE_SECONDS + 1)
        if len(recent) < 2:
            return {"topics": {}, "views": {}}
        first, last = recent[0], recent[-1]
        seconds = max((last.at - first.at).total_seconds(), 1e-3)
        return {
            "topics": {k: max(0.0, (v - first.topics.get(k, v)) / seconds) for k, v in last.topics.items()},
            "views": {k: max(0.0, (v - first.views.get(k, 0)) / seconds) for k, v in last.views.items()},
        }

    async def _run(self) -> None:
        while True:
            # What is busy or damaged is reported to the reader; a chart has a gap there.
            with suppress(HeadwaterError, OSError):
                self.samples.append(await self._threads.run(self.sample))
                self._wake()
            await asyncio.sleep(SAMPLE_SECONDS)

    def sample(self) -> Sample:
        """How things are now."""
        current = self._reader.current()
        self._take_batches(current)
        position = self._log.position()
        topics = [topic.name for topic in self._log.topics()]
        ends = {name: sum(end for _, end in self._log.offsets(name).values()) for name in topics}
        lag: Counter[str] = Counter()
        for one in self._log.lag():
            lag[one.group] += one.records
        if self._count % SIZES_EVERY == 0:
            sizes = {name: sum(size.bytes for size in self._log.sizes(name)) for name in topics}
            self.sizes = Sizes(sizes, self._reader.sizes())
        self._count += 1
        last = self._last
        return Sample(
            at=datetime.now(UTC),
            log_position=position,
            view_position=None if current is None else current.position,
            behind=None if current is None else current.position.behind(position),
            freshness_seconds=self._freshness(current),
            batch=None if last is None else last.batch,
            batch_seconds=None if last is None else last.stats.seconds,
            batch_records=None if last is None else last.stats.records,
            topics=ends,
            views=dict(self._changed),
            lag=dict(lag),
            sinks=self._sinks(),
        )

    def _sinks(self) -> dict[str, int]:
        """How many changed rows each sink has still to deliver."""
        found = {name: feed.status(self._reader).lag for name, feed in self._feeds().items()}
        return {name: lag for name, lag in found.items() if lag is not None}

    def _freshness(self, current: Generation | None) -> float | None:
        """How stale the views are; at least as stale as what was published since the last sample had become."""
        now = self._fresh.seconds(current)
        waited = [one.freshness_seconds or 0.0 for one in self._published]
        return None if now is None else max([now, *waited])

    def _take_batches(self, current: Generation | None) -> None:
        """Adds up the changes of batches that were published since the last sample."""
        self._published = []
        if current is None or self._seen == (current.id, current.batch):
            return
        published = self._reader.published(BATCHES_LOOKED_AT)
        if self._seen is not None:
            same = self._seen[0] == current.id
            self._published = [one for one in published if not same or one.batch > self._seen[1]]
            for one in self._published:
                self._changed.update(one.stats.changes)
        for view in current.definition.views:
            self._changed.setdefault(view, 0)
        self._seen = (current.id, current.batch)
        self._last = published[-1] if published else self._last

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
