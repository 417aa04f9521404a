"""Background work that must not die: each piece has an owner that restarts it after an unexpected error, and counts.

A thread whose end is told to somebody who waits for it needs no owner.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

PAUSE_SECONDS = 0.5
"""How long the first pause before a restart is; each is twice as long as the one before."""
PAUSE_SECONDS_MAX = 60.0
STEADY_SECONDS = 60.0
"""Work that ran for this long without an error starts with the first pause again."""

_log = logging.getLogger("headwater.background")
_turn = threading.Lock()
_restarts: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class BackgroundState:
    """How a piece of background work is. `error` is what it failed with last, None while all is well.

    Work that has `failed` is not restarted.
    """

    name: str
    restarting: bool
    restarts: int
    error: str | None = None
    failed_at: datetime | None = None
    failed: bool = False

    @property
    def status(self) -> str:
        """In one word: `running`, `restarting` or `failed`."""
        return "failed" if self.failed else "restarting" if self.restarting else "running"

    @property
    def is_down(self) -> bool:
        return self.restarting or self.failed


class Account:
    """What happened to one piece of work, and how long to pause before it is started again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: str | None = None
        self.failed_at: datetime | None = None
        self.restarting = self.failed = False
        self._pause = PAUSE_SECONDS
        self._began = time.monotonic()

    def begin(self) -> None:
        self.restarting, self._began = False, time.monotonic()
        with _turn:
            _accounts.add(self)

    def fail(self, error: Exception) -> float:
        """Notes a failure; how long to pause."""
        if time.monotonic() - self._began >= STEADY_SECONDS:
            self._pause = PAUSE_SECONDS
        pause, self._pause = self._pause, min(2 * self._pause, PAUSE_SECONDS_MAX)
        self._note(error)
        self.restarting = True
        with _turn:
            _restarts[self.name] += 1
        _log.warning("The background work %r failed and restarts in %g s: %s", self.name, pause, self.error)
        _log.debug("The background work %r failed", self.name, exc_info=error)
        return pause

    def give_up(self, error: Exception) -> None:
        """Notes that the work has failed for good."""
        self._note(error)
        self.failed = True

    def end(self) -> None:
        with _turn:
            _accounts.discard(self)

    def state(self) -> BackgroundState:
        restarts = _restarts[self.name]
        return BackgroundState(self.name, self.restarting, restarts, self.error, self.failed_at, self.failed)

    def _note(self, error: Exception) -> None:
        self.error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        self.failed_at = datetime.now(UTC)


_accounts: weakref.WeakSet[Account] = weakref.WeakSet()


def background_states() -> list[BackgroundState]:
    """Everything that this process keeps running, by name; of several with one name, one that is down comes first."""
    with _turn:
        states = sorted((account.state() for account in _accounts), key=lambda state: (state.name, not state.is_down))
    return list({state.name: state for state in reversed(states)}.values())[::-1]


class Background:
    """A thread that calls `run` until that returns, and again after each error of `restarts_on`.

    An error that it gives up on stays in `failure`, and among the states until `stop`. Whatever else `run` raises ends
    the thread. Let `run` return before you call `stop`, or soon after.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[], None],
        *,
        restarts_on: tuple[type[Exception], ...] = (Exception,),
        gives_up_on: Callable[[Exception], bool] = lambda _: False,
        on_give_up: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._run, self._restarts_on = run, restarts_on
        self._gives_up_on, self._on_give_up = gives_up_on, on_give_up
        self.failure: Exception | None = None
        self._account = Account(name)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"headwater-{name}", daemon=True)

    def start(self) -> Self:
        self._account.begin()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Restarts nothing any more, and returns when the thread has ended."""
        self._stopped.set()
        self._thread.join()

    def join(self, seconds_max: float | None = None) -> None:
        """Returns when the thread has ended, or after `seconds_max`."""
        self._thread.join(seconds_max)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def state(self) -> BackgroundState:
        return self._account.state()

    def _keep(self) -> None:
        try:
            while True:
                self._account.begin()
                try:
                    self._run()
                except self._restarts_on as error:
                    if self._gives_up_on(error):
                        self._give_up(error)
                        return
                    if self._stopped.is_set() or self._stopped.wait(self._account.fail(error)):
                        return
                else:
                    return
        finally:
            self._account.end()

    def _give_up(self, error: Exception) -> None:
        self._account.give_up(error)
        self.failure = error
        self._on_give_up(error)
        self._stopped.wait()


async def kept(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """As `Background`, for a coroutine in an event loop: cancel the task to end it."""
    account = Account(name)
    try:
        while True:
            account.begin()
            try:
                return await run()
            except Exception as error:  # noqa: BLE001 - that is what it is for
                await asyncio.sleep(account.fail(error))
    finally:
        account.end()
