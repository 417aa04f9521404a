"""A function in Python as a sink: it is called with every change of a view."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from headwater.engine.sinks.port import Journal, Mark, Sink
from headwater.engine.subscription import Changes
from headwater.errors import TargetFailed
from headwater.errors.sinks import FailureKind

REASON_LENGTH_MAX = 300
_URL = re.compile(r"(?P<scheme>\w+://)(?:[^\s/@]*@)?(?P<host>[^\s/?#'\"]*)[^\s'\"]*")


class FunctionSink(Sink):
    """Calls a function with each change, in order, at least once: after a crash the last one may come again.

    It comes again with the same position, generation and rows. What the function raises is a failure of the target:
    the same changes come again after a pause. `OSError`, of which are those of connections and timeouts, is taken for a
    failure that passes; any other for one that somebody has to mend, so that the sink pauses after a few attempts.
    Raise `TargetFailed` to decide on that.
    """

    kind: ClassVar[str] = "function"

    def __init__(self, function: Callable[[Changes], object]) -> None:
        self._function = function
        self._journal: Journal | None = None

    @property
    def target(self) -> str:
        return getattr(self._function, "__qualname__", type(self._function).__name__)

    def open(self, journal: Journal) -> Mark | None:
        self._journal = journal
        return journal.mark

    def write(self, changes: Changes, *, more: bool) -> None:
        if not changes.rows.num_rows and not changes.snapshot:
            return
        assert self._journal is not None, "it was opened"
        # With it the end of the call before is on the disk, so that only this one may come again.
        self._journal.begin(str(changes.position))
        try:
            self._function(changes)
        except TargetFailed:
            raise
        except Exception as error:
            kind: FailureKind = "passing" if isinstance(error, OSError) else "refused"
            said = f"{self.target} raises {type(error).__name__}: {_shown(str(error))}"
            raise TargetFailed(said, kind) from error
        self._journal.end(Mark(changes.position, changes.generation))

    def gap(self, mark: Mark, reason: str) -> None:
        """A function that starts with "now" is not told: it has every change that comes from there on."""

    def close(self) -> None:
        pass


def _shown(text: str) -> str:
    """What an error says, without what URLs in it may hold of secrets: all but the scheme and the host."""
    return _URL.sub(r"\g<scheme>\g<host>", " ".join(text.split()))[:REASON_LENGTH_MAX].rstrip(".")
