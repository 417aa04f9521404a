"""What the server serves: an application, and everything that its requests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from headwater.app import App
from headwater.engine.reading import Reader
from headwater.engine.sinks.waiting import LOOK_SECONDS, Waiting, chosen
from headwater.errors import HeadwaterError
from headwater.model.position import Position
from headwater.server import tokens
from headwater.server.audits import Audits
from headwater.server.budget import Budget
from headwater.server.connections import Connections
from headwater.server.contents import Contents
from headwater.server.counters import Counters
from headwater.server.failures import too_many
from headwater.server.freshness import Freshness
from headwater.server.history import History
from headwater.server.hub import Hub
from headwater.server.limits import Limits
from headwater.server.positions import LogMoves, ViewMoves, Watched
from headwater.server.processes import Processes
from headwater.server.queries.pool import QueryPool
from headwater.server.sources import Sources
from headwater.server.statsd import Listener
from headwater.server.threads import Threads
from headwater.server.tokens import Tokens
from headwater.server.verifications import Verifications, Verify, app_verifier
from headwater.system.background import kept
from headwater.system.clock import Clock

HUB_IDLE_SECONDS = 60.0
"""A view that nobody follows any more is followed for so long, for those who come back."""


BODY_PATIENCE_SECONDS = 5.0
"""A body that takes longer to arrive gives way to others, if there are too many in memory."""
ANSWER_PATIENCE_SECONDS = 1.0
"""An answer of which the client has taken nothing for so long gives way to others, if there are too many in memory."""
PAUSE_SECONDS_MAX = 0.1
"""How often it is looked at least whether sinks have what a request waits for."""
TOPICS_REMEMBERED_MAX = 1000
"""Topics that are followed, whose ends are kept."""


@dataclass(slots=True)
class Running:
    """What a pipeline in this process does; None where the process does not know."""

    runs_here: bool = False
    failure: HeadwaterError | None = None
    failed_at: datetime | None = None
    server_restarts: int = 0
    """How often the server was started again because it had failed."""


class Page(NamedTuple):
    """A page of the console that a server has beside the usual ones: the default of the script `module` makes it."""

    name: str
    text: str
    module: str


@dataclass(slots=True)
class _Followed:
    hub: Hub
    used_at: float = field(default_factory=time.monotonic)


class Service:
    """An application and its log, views, streams, counters and limits. Belongs to one event loop once it is started."""

    def __init__(
        self,
        app: App,
        *,
        limits: Limits | None = None,
        tokens_required: bool = False,
        secure: bool = False,
        verify: Verify | None = None,
        running: Running | None = None,
        pages: Sequence[Page] = (),
        clock: Clock | None = None,
    ) -> None:
        self.app, self.log, self.limits = app, app.log, limits or Limits()
        self.tokens_required, self.secure = tokens_required, secure
        self.reader = Reader(app.directory)
        self.tokens = Tokens(app.directory)
        self.threads, self.counters = Threads(), Counters()
        self.connections = Connections(self.limits, self.counters)
        self.bodies = Budget(self.limits.bodies_bytes_max, BODY_PATIENCE_SECONDS)
        self.answers = Budget(self.limits.answers_bytes_max, ANSWER_PATIENCE_SECONDS)
        self.contents = Contents(self.reader)
        self.log_moves = Watched(LogMoves(self.log), "log")
        self.view_moves = Watched(ViewMoves(self.reader), "views")
        self.clock = clock or Clock()
        self.processes = Processes(app, self.clock)
        self.sources = Sources(app.sources, self.clock)
        self.freshness = Freshness(self.log, self.reader, self.processes, self.clock)
        self.history = History(
            self.log, self.reader, self.threads, self.freshness, self.limits.history_seconds_max, lambda: app.sinks
        )
        self.audits = Audits(lambda: app.sinks)
        self.verifications = Verifications(app.directory, verify or app_verifier(app))
        self.query_pool = QueryPool(self.log, app.directory, self.limits, self.threads, self.counters)
        self.running = running or Running()
        self.pages = tuple(pages)
        self.statsd = None if app.statsd_receiver is None else Listener(app.statsd_receiver, self.log)
        self.streams = self.queries = self.appends = 0
        self.closing = False
        self._looking: asyncio.Task[None] | None = None
        self._hubs: dict[str, _Followed] = {}
        self._ends: dict[str, tuple[Position | None, asyncio.Future[dict[int, tuple[int, int]]]]] = {}

    @property
    def needs_tokens(self) -> bool:
        """Whether requests need a token: as soon as there is one, and wherever others than this machine can ask."""
        return self.tokens_required or bool(self.tokens.known())

    async def start(self) -> None:
        """Begins to watch positions, to sample, and to listen for what comes by other ways than HTTP."""
        await self.log_moves.start()
        await self.view_moves.start()
        self.history.start()
        await self.threads.run(self.tokens.refresh)
        self._looking = asyncio.create_task(kept("tokens", self._look_for_tokens))
        if self.statsd is not None:
            self.statsd.start()
        self.sources.start()
        self.query_pool.start()

    def close_streams(self) -> None:
        """Lets every stream and every wait end soon. Call it in the event loop."""
        self.closing = True
        for followed in self._hubs.values():
            followed.hub.stop()
        for watched in (self.log_moves, self.view_moves):
            watched.release()
        self.history.release()

    async def stop(self) -> None:
        """Ends all threads and all processes. The application stays open."""
        self.close_streams()
        if self.statsd is not None:
            self.statsd.stop()
        for watched in (self.log_moves, self.view_moves):
            watched.stop()
        await self.history.stop()
        if self._looking is not None:
            self._looking.cancel()
        self.verifications.close()
        self.audits.close()
        await self.threads.run(self.sources.stop)
        await self.query_pool.stop()
        self.threads.close()
        self.reader.close()

    def hub(self, view: str) -> Hub:
        """The hub of a view; hubs that nobody needs any more end."""
        now = time.monotonic()
        for name, followed in list(self._hubs.items()):
            if followed.hub.subscribers:
                followed.used_at = now
            if followed.hub.failure is not None or now - followed.used_at > HUB_IDLE_SECONDS:
                followed.hub.stop()
                del self._hubs[name]
        if view not in self._hubs:
            self._hubs[view] = _Followed(Hub(self.app.directory, view, self.limits, self.threads))
        self._hubs[view].used_at = now
        return self._hubs[view].hub

    def subscribers(self) -> Mapping[str, int]:
        """How many follow each view."""
        return {name: followed.hub.subscribers for name, followed in list(self._hubs.items())}

    def dropped(self) -> Mapping[str, int]:
        """How many followers of each view were dropped because they were too slow."""
        return {name: followed.hub.dropped for name, followed in list(self._hubs.items())}

    def open_stream(self) -> Callable[[bool], None]:
        """Counts a stream; call what is returned when it ends. Raises `Refused` if there are too many."""
        if self.streams >= self.limits.streams_max:
            raise too_many("streams")
        self.streams += 1

        def ended(stalled: bool) -> None:  # noqa: FBT001 - a callback
            self.streams -= 1
            if stalled:
                self.counters.add("headwater_streams_stalled_total")

        return ended

    @contextmanager
    def append_slot(self) -> Iterator[None]:
        """Counts an append whose body has arrived. Raises `Refused` if there are too many."""
        if self.appends >= self.limits.appends_waiting_max:
            raise too_many("appends")
        self.appends += 1
        try:
            yield
        finally:
            self.appends -= 1

    async def ends(self, topic: str) -> Mapping[int, int]:
        """The end of each partition of a topic, looked up once for all who follow it. Raises `UnknownTopic`."""
        position, held = self.log_moves.position, self._ends.get(topic)
        if held is None or held[0] != position:
            if len(self._ends) > TOPICS_REMEMBERED_MAX:
                self._ends.clear()
            held = self._ends[topic] = (position, asyncio.ensure_future(self.threads.run(self.log.offsets, topic)))
        try:
            # Who goes away must not take it from the others.
            found = await asyncio.shield(held[1])
        except HeadwaterError:
            self._ends.pop(topic, None)
            raise
        return {partition: end for partition, (_, end) in found.items()}

    async def _look_for_tokens(self) -> None:
        while True:
            await asyncio.sleep(tokens.LOOK_EVERY_SECONDS)
            # What cannot be looked at stays as it was.
            with suppress(HeadwaterError, OSError):
                await self.threads.run(self.tokens.refresh)

    def wait_seconds(self, asked: float | None) -> float:
        """How long a read waits for a position."""
        most = float(self.limits.wait_seconds_max)
        return most if asked is None else min(asked, most)

    async def views_at(self, at_least: str | None, wait: float | None) -> Position | None:
        """Waits until views are there, and at a position if one is asked for. Raises `NotYet`."""
        wanted = None if at_least is None else Position.parse(at_least)
        seconds = self.wait_seconds(wait if wanted is not None or wait is not None else 0.0)
        await self.view_moves.reached(wanted, seconds)
        return wanted

    async def log_at(self, at_least: str | None, wait: float | None) -> Position:
        """Waits until the log is at a position if one is asked for; where it is. Raises `NotYet`."""
        if at_least is not None:
            await self.log_moves.reached(Position.parse(at_least), self.wait_seconds(wait))
        return await self.threads.run(self.log.position)

    async def sinks_at(self, names: Sequence[str], position: Position, seconds: float) -> None:
        """Returns when the targets of some sinks have a position. Raises `UnknownSink`, `SinksBehind`."""
        waiting, deadline = Waiting(chosen(self.app.sinks, names), position), time.monotonic() + seconds
        pause = LOOK_SECONDS
        while not await self.threads.run(waiting.is_over, self.reader):
            if self.closing or time.monotonic() >= deadline:
                raise await self.threads.run(waiting.behind, seconds)
            await asyncio.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.2, PAUSE_SECONDS_MAX)
