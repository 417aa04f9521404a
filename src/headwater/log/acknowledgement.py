"""An acknowledgement: the future of one record that was sent, made for each of them and so made cheap."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from headwater.model.position import Position

_PENDING, _FINISHED = "PENDING", "FINISHED"
# Held for moments, and by all acknowledgements: whether one has a condition, and whether it is done, change under it.
_changing = threading.Lock()


class Acknowledgement(Future[Position]):
    """A future that makes its lock and condition when a thread first waits for it: few are ever waited for.

    `Future` makes them at once, a dozen objects for each record, and with them half of a producer's work: making them,
    and the garbage collections they bring about. Everything that waits goes to `Future` itself.
    A record that was sent cannot be taken back: `cancel` has no effect.
    """

    def __init__(self) -> None:
        # Not Future's own, which makes the condition.
        self._state = _PENDING
        self._result: Position | None = None
        self._exception: BaseException | None = None
        self._done_callbacks: list[Callable[[Future[Position]], Any]] = []
        self._is_plain = False

    def __getattr__(self, name: str) -> Any:
        """What `Future.__init__` would have made. Only called for what is not there."""
        if name not in {"_condition", "_waiters"}:
            raise AttributeError(name)
        condition = threading.Condition()
        with _changing:
            if not self._is_plain:
                self._condition, self._waiters, self._is_plain = condition, [], True
        return self.__dict__[name]

    def cancel(self) -> bool:
        return False

    def done(self) -> bool:
        return self._state == _FINISHED

    def result(self, timeout: float | None = None) -> Position:
        if self._state == _FINISHED and self._result is not None:
            return self._result
        return super().result(timeout)

    def add_done_callback(self, fn: Callable[[Future[Position]], object]) -> None:
        with _changing:
            if not self._is_plain and self._state == _PENDING:
                self._done_callbacks.append(fn)
                return
        super().add_done_callback(fn)

    def set_result(self, result: Position) -> None:
        if not self._finish(result, None):
            super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        if not self._finish(None, exception):
            super().set_exception(exception)

    def _finish(self, result: Position | None, exception: BaseException | None) -> bool:
        """Whether that was all, because nobody waited who has to be woken."""
        with _changing:
            if self._is_plain or self._state != _PENDING:
                return False
            self._result, self._exception, self._state = result, exception, _FINISHED
        self._invoke_callbacks()
        return True
