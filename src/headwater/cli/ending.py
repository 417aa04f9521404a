"""What Ctrl-C and SIGTERM do to a command that runs until somebody ends it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from headwater.cli.output import say

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """Knows whether somebody wants the program to end: at once, or, while it is patient, when a batch is done."""

    def __init__(self) -> None:
        self.asked = False
        self._patient = False
        self._before = {each: signal.getsignal(each) for each in _SIGNALS}

    def install(self) -> None:
        """Answers the signals from now on."""
        for each in _SIGNALS:
            if self._before[each] is not signal.SIG_IGN:  # as a shell starts a program in the background
                signal.signal(each, self._note)

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Within it, only the second signal is answered at once."""
        self._patient = True
        try:
            yield
        finally:
            self._patient = False

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or not self._patient:
            raise KeyboardInterrupt
        say("Stopping after the current batch, if there is one; Ctrl-C again stops at once, and loses nothing either.")
