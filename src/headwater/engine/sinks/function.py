"""A function in Python as a sink: it is called with every change of a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from headwater.engine.sinks.port import Journal, Mark, Sink
from headwater.engine.subscription import Changes
from headwater.errors import TargetFailed


class FunctionSink(Sink):
    """Calls a function with each change, in order, at least once: after a crash the last ones come again.

    What it raises is a failure of the target: the same changes come again after a pause.
    """

    kind: ClassVar[str] = "function"

    def __init__(self, function: Callable[[Changes], object]) -> None:
        self._function = function

    @property
    def target(self) -> str:
        return getattr(self._function, "__qualname__", type(self._function).__name__)

    def open(self, journal: Journal) -> Mark | None:
        return journal.mark

    def write(self, changes: Changes, *, more: bool) -> None:
        if not changes.rows.num_rows and not changes.snapshot:
            return
        try:
            self._function(changes)
        except TargetFailed:
            raise
        except Exception as error:
            raise TargetFailed(f"{self.target} raises {type(error).__name__}: {error}", "refused") from error

    def gap(self, mark: Mark, reason: str) -> None:
        """A function that starts with "now" is not told: it has every change that comes from there on."""

    def close(self) -> None:
        pass
