"""The hub of a view: one thread reads its changes, and any number of subscribers get each of them.

A change is encoded once and put into a ring. A subscriber has a place in the ring, not a queue: however slow it is, it
costs nothing but its place, and when the ring has gone past that, it is dropped and told from where to resume.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from datetime import timedelta
from pathlib import Path

from headwater.engine.reading import Reader
from headwater.engine.subscription import Changes, Subscription
from headwater.errors import HeadwaterError, InternalError, NotYet, UnknownView, UsageError
from headwater.server import sse
from headwater.server.answers import HEARTBEAT_SECONDS
from headwater.server.budget import Hold
from headwater.server.failures import error_body, message_of
from headwater.server.frames import frames, mark_of
from headwater.server.limits import Limits
from headwater.server.ring import Change, Ring
from headwater.server.sse import Mark
from headwater.server.threads import Threads

POLL = timedelta(seconds=1)
READS_AT_ONCE_MAX = 4
"""Subscribers that read from the store at once, before they join the ring."""
_log = logging.getLogger("headwater.server")


class _Ended(Exception):
    """The hub ended before a subscriber had joined the ring."""


class Hub:
    """Follows one view for its subscribers. Its methods belong to one event loop, but for what its thread calls."""

    def __init__(self, directory: Path, view: str, limits: Limits, threads: Threads) -> None:
        self.view, self._directory, self._limits, self._threads = view, directory, limits, threads
        self.subscribers = self.dropped = 0
        self.failure: HeadwaterError | None = None
        self._ring: Ring | None = None
        self._moved = asyncio.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = asyncio.Lock()
        self._reads = asyncio.Semaphore(READS_AT_ONCE_MAX)
        self._content: tuple[Mark, list[bytes]] | None = None

    def stop(self) -> None:
        """Ends the thread, which takes a second at most; subscribers are told to resume."""
        self._ended.set()
        self._wake()

    async def events(self, after: Mark | None, hold: Hold) -> AsyncGenerator[bytes]:
        """The content and then every change, or every change after a mark; ends when the subscriber is dropped.

        The hold is of what the subscriber has in memory for itself alone.
        """
        self.subscribers += 1
        try:
            async with aclosing(self._events(after, hold)) as events:
                async for event in events:
                    yield event
        except _Ended:
            # It has not got all of the content yet, so that it cannot continue after it: it connects again.
            return
        finally:
            self.subscribers -= 1

    async def _events(self, after: Mark | None, hold: Hold) -> AsyncGenerator[bytes]:
        ring = await self.start()
        mark = after
        if after is None or not ring.start <= after <= ring.end:
            async with aclosing(self._catch_up(ring, after, hold)) as caught_up:
                async for mark, frame in caught_up:  # noqa: B007 - the last mark counts
                    yield frame
        assert mark is not None, "catching up ends with a mark"
        async with aclosing(self._follow(ring, mark)) as followed:
            async for frame in followed:
                yield frame

    async def _follow(self, ring: Ring, mark: Mark) -> AsyncGenerator[bytes]:
        while True:
            moved = self._moved
            if not ring.covers(mark):
                self.dropped += 1
                yield _dropped(mark, "It has taken changes slower than they came.")
                return
            # One at a time: what a slow subscriber holds must not outlive the ring.
            change = ring.after(mark)
            if change is not None:
                yield change.frame
                mark = change.mark
                continue
            if self._ended.is_set() or self.failure is not None:
                yield _dropped(mark, "The server ends." if self.failure is None else message_of(self.failure))
                return
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await moved.wait()
            except TimeoutError:
                yield sse.HEARTBEAT

    async def _catch_up(self, ring: Ring, after: Mark | None, hold: Hold) -> AsyncGenerator[tuple[Mark, bytes]]:
        """What comes before the ring: from the store, or from the content that another subscriber just had."""
        if after is None and self._content is not None and ring.covers(self._content[0]):
            mark, content = self._content
            for frame in content:
                yield mark, frame
            return
        known = after
        subscription = await self._threads.run(self._open, after)
        try:
            while not self._ended.is_set():
                # What the store has by now reaches at least to where the ring began.
                floor = ring.start
                async with self._reads:
                    found, reset = await self._threads.run(self._poll, subscription, known)
                if reset is not None:
                    await self._threads.run(subscription.close)
                    subscription, known = await self._threads.run(self._open, None), None
                    yield floor, reset
                elif found is not None:
                    known = mark_of(found)
                    hold.take(found.rows.nbytes)
                    async with aclosing(self._encoded(found, ring)) as encoded:
                        async for frame in encoded:
                            yield known, frame
                    hold.free(found.rows.nbytes)
                    if ring.covers(known):
                        return
                elif known is not None:
                    yield max(known, floor), sse.HEARTBEAT
                    return
                else:
                    yield floor, sse.HEARTBEAT
                    await asyncio.sleep(POLL.total_seconds())
            raise _Ended
        finally:
            await self._threads.run(subscription.close)

    async def _encoded(self, found: Changes, ring: Ring) -> AsyncGenerator[bytes]:
        """The events of a change, made in a thread, one after the other; a small content is kept for others."""
        small = found.rows.nbytes <= self._limits.ring_bytes_max // 4
        kept: list[bytes] = []
        made = frames(found)
        while (frame := await self._threads.run(next, made, None)) is not None:
            if small and found.snapshot:
                kept.append(frame)
            yield frame
        if kept and ring.covers(mark_of(found)):
            self._content = (mark_of(found), kept)

    def _open(self, after: Mark | None) -> Subscription:
        if after is None:
            return Subscription(self._directory, self.view)
        return Subscription(self._directory, self.view, after.position, generation=after.generation)

    def _poll(self, subscription: Subscription, mark: Mark | None) -> tuple[Changes | None, bytes | None]:
        """The next change; or the event that says that there is a gap, and that the content is sent again."""
        try:
            return subscription.poll(), None
        except UsageError as error:
            # Too old, or of a time before the state was deleted: the content takes the place of all that is known.
            if mark is None or isinstance(error, UnknownView):
                raise
            return None, sse.event(error_body(error), name="reset")

    async def start(self) -> Ring:
        """Begins to follow the view, if it does not yet. Raises `UnknownView`, `NotYet`."""
        async with self._starting:
            if self._ring is None:
                start = await self._threads.run(self._now)
                limits = self._limits
                self._ring = Ring(start, events_max=limits.ring_events_max, bytes_max=limits.ring_bytes_max)
                loop = asyncio.get_running_loop()
                self._thread = threading.Thread(
                    target=self._run,
                    args=(self._ring, start, loop.call_soon_threadsafe),
                    name=f"headwater-view-{self.view}",
                    daemon=True,
                )
                self._thread.start()
            return self._ring

    def _now(self) -> Mark:
        with Reader(self._directory) as reader:
            current = reader.current()
        if current is None:
            raise NotYet(None, None, 0)
        current.definition.view(self.view)
        return Mark(current.position, current.id)

    def _run(self, ring: Ring, start: Mark, tell: Callable[..., object]) -> None:
        try:
            with self._open(start) as subscription:
                while not self._ended.is_set():
                    found = subscription.poll(POLL)
                    if found is not None:
                        tell(self._take, ring, mark_of(found), self._frame(found))
        except HeadwaterError as error:
            self._tell_failure(tell, error)
        except Exception:  # noqa: BLE001 - whatever it is, nobody may wait for changes that do not come
            if not self._ended.is_set():
                _log.exception("Following view %s failed", self.view)
                self._tell_failure(tell, InternalError("unexpected"))

    def _tell_failure(self, tell: Callable[..., object], error: HeadwaterError) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            tell(self._fail, error)

    def _frame(self, found: Changes) -> bytes | None:
        if found.rows.nbytes > self._limits.ring_bytes_max:
            return None
        return b"".join(frames(found))

    def _take(self, ring: Ring, mark: Mark, frame: bytes | None) -> None:
        if frame is None or len(frame) > self._limits.ring_bytes_max:
            ring.skip(mark)
        else:
            ring.add(Change(mark, frame))
        self._wake()

    def _fail(self, error: HeadwaterError) -> None:
        self.failure = error
        self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def _dropped(mark: Mark, reason: str) -> bytes:
    body = {"reason": reason, "position": str(mark.position), "hint": f"Connect again with Last-Event-ID: {mark}."}
    return sse.event(body, name="dropped")
