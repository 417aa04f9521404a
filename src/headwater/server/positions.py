"""Positions that other threads and processes move, for coroutines that wait for one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

from headwater.engine.reading import Reader
from headwater.errors import HeadwaterError, NotYet
from headwater.log.port import Log
from headwater.model.position import Position
from headwater.system.background import Background

LOOK_EVERY = timedelta(milliseconds=250)
"""How long a thread waits at most before it looks whether it shall end."""


class Moving(Protocol):
    """Something with a position that moves."""

    def now(self) -> Position | None:
        """The position; None if there is none yet."""

    def next(self, seen: Position | None) -> Position | None:
        """Returns when the position is not the one that was seen, or after a while; None if there is none yet."""


class LogMoves:
    """The position of a log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def now(self) -> Position | None:
        return self._log.position()

    def next(self, seen: Position | None) -> Position | None:
        return self.now() if seen is None else self._log.wait(seen, LOOK_EVERY)


class ViewMoves:
    """The position of the views that a pipeline publishes."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def now(self) -> Position | None:
        return self._reader.position()

    def next(self, seen: Position | None) -> Position | None:
        ticket = self._reader.ticket()
        now = self.now()
        if now != seen:
            return now
        self._reader.wait(ticket, LOOK_EVERY.total_seconds())
        return self.now()


class Watched:
    """Follows a position in one thread, however many wait for it. `start` and all waiting belong to one event loop."""

    def __init__(self, moving: Moving, name: str) -> None:
        self.position: Position | None = None
        self._moving, self._name = moving, name
        self._waiting: dict[asyncio.Future[None], Callable[[Position], bool]] = {}
        self._ended = threading.Event()
        self._thread: Background | None = None

    async def start(self) -> None:
        """Begins to follow; the position is known when it returns."""
        loop = asyncio.get_running_loop()
        with suppress(HeadwaterError):
            self.position = await loop.run_in_executor(None, self._moving.now)
        tell = loop.call_soon_threadsafe
        self._thread = Background(f"positions-{self._name}", lambda: self._run(self.position, tell)).start()

    def release(self) -> None:
        """Lets nobody wait any more: what is not reached by now is not reached."""
        self._ended.set()
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def stop(self) -> None:
        """Ends the thread, which takes a second at most."""
        self._ended.set()
        if self._thread is not None:
            self._thread.stop()

    async def reached(self, wanted: Position | None, seconds: float) -> None:
        """Returns when there is a position, and it is not before `wanted`. Raises `NotYet`."""
        if not await self._wait(lambda position: wanted is None or wanted <= position, seconds):
            asked, now = (None if one is None else str(one) for one in (wanted, self.position))
            raise NotYet(asked, now, seconds, of_log=isinstance(self._moving, LogMoves))

    async def moved(self, seen: Position, seconds: float) -> bool:
        """Whether the position has gone past one within this many seconds."""
        return await self._wait(lambda position: not position <= seen, seconds)

    async def _wait(self, wanted: Callable[[Position], bool], seconds: float) -> bool:
        if self._is_reached(wanted) or self._ended.is_set():
            return self._is_reached(wanted)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = wanted
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return self._is_reached(wanted)
        finally:
            self._waiting.pop(future, None)
        return self._is_reached(wanted)

    def _is_reached(self, wanted: Callable[[Position], bool]) -> bool:
        return self.position is not None and wanted(self.position)

    def _run(self, seen: Position | None, tell: Callable[..., object]) -> None:
        while not self._ended.is_set():
            try:
                now = self._moving.next(seen)
            except (HeadwaterError, OSError):
                # A busy or damaged store is reported to the reader; this only waits for what comes after.
                time.sleep(LOOK_EVERY.total_seconds())
                continue
            if now != seen:
                seen = now
                try:
                    tell(self._take, now)
                except RuntimeError:
                    return  # the event loop has ended

    def _take(self, position: Position | None) -> None:
        self.position = position
        for future, wanted in self._waiting.items():
            if self._is_reached(wanted) and not future.done():
                future.set_result(None)
