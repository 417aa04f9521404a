"""Progress of work that takes long, on standard error, and Ctrl-C at a moment when it does no harm."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from headwater.cli.output import messages

# What is done sooner needs no bar.
QUIET_SECONDS = 2.0


class Bar:
    """A progress bar that appears if the work is not done after two seconds, and goes when it is.

    Call it with how much is done and how much there is (None: nobody knows). Without a terminal nothing is shown.
    """

    def __init__(self, label: str) -> None:
        self._began = time.monotonic()
        self._shown = False
        console = messages()
        self._possible = console.is_terminal
        self._progress = Progress(
            TextColumn(label),
            BarColumn(),
            TaskProgressColumn(show_speed=False),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, note="")

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        if self._possible and not self._shown and time.monotonic() - self._began >= QUIET_SECONDS:
            self._progress.update(self._task, completed=done, total=total, note=note)
            self._shown = True
            self._progress.start()
        elif self._shown:
            self._progress.update(self._task, completed=done, total=total, note=note)

    def close(self) -> None:
        """Takes the bar away; it does not come back."""
        self._possible = False
        if self._shown:
            self._shown = False
            self._progress.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Puts a Ctrl-C off until the block has ended, so that it is known what happened. A second one is not put off."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:  # as a shell starts a program in the background
        yield
        return
    came = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
