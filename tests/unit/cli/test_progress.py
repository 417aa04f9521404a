"""A bar appears only for work that takes long, and a Ctrl-C waits for the moment when it does no harm."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator

import pytest
from rich.console import Console

from headwater.cli import progress
from headwater.cli.progress import Bar, uninterrupted


@pytest.fixture(autouse=True)
def pythons_own_handler() -> Iterator[None]:
    """Another test of this process may have started Spark, which handles a Ctrl-C in its own way."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def terminal(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> io.StringIO:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, width=100)
    monkeypatch.setattr(progress, "messages", lambda: console)
    return shown


@pytest.mark.parametrize(
    ("quiet", "is_terminal", "seen"), [(0.0, True, True), (3600.0, True, False), (0.0, False, False)]
)
def test_a_bar_appears_if_it_takes_long_and_somebody_looks(
    monkeypatch: pytest.MonkeyPatch, quiet: float, is_terminal: bool, seen: bool
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", quiet)
    shown = terminal(monkeypatch, is_terminal=is_terminal)
    with Bar("Checking") as bar:
        bar(1, 4, "segments")
    assert ("Checking" in shown.getvalue()) is seen
    assert ("25%" in shown.getvalue()) is seen


def interrupt(reached: list[str], *names: str) -> None:
    """A Ctrl-C, then a step, for each name."""
    with uninterrupted():
        for name in names:
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(name)


def test_a_ctrl_c_is_put_off_until_the_end() -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupt(reached, "the end")
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_is_not_put_off() -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupt(reached, "the first", "the second")
    assert reached == ["the first"]


def test_a_program_that_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reached: list[str] = []
    interrupt(reached, "the first", "the second")
    assert reached == ["the first", "the second"]
