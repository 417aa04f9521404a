"""What a run tells, shown on standard error: sentences, and a bar for work that takes long."""

from __future__ import annotations

from headwater.cli.failures import report
from headwater.cli.output import complain, say
from headwater.cli.progress import Bar
from headwater.engine.parts import Report


class Showing(Report):
    """Shows a run; `code` is the exit code of the first part that has failed for good, None while none has."""

    def __init__(self, bar: Bar | None = None) -> None:
        self._bar = bar
        self.code: int | None = None

    def say(self, text: str) -> None:
        say(text)

    def warn(self, text: str) -> None:
        complain(text)

    def failed(self, part: str, error: Exception) -> None:
        code = report(error)
        self.code = code if self.code is None else self.code
        say(f"Part {part!r} has failed; everything else keeps running until Ctrl-C.")

    def progress(self, what: str, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar(done, total, what)
