"""`headwater run`: keeps the views of an application up to date."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Self

import typer

from headwater.app import App
from headwater.cli.app_loading import Application, load
from headwater.cli.app_progress import display, steps
from headwater.cli.arguments import examples
from headwater.cli.captures import capturing
from headwater.cli.failures import INTERRUPTED
from headwater.cli.output import say
from headwater.connectors.running import Captures
from headwater.engine.pipeline import Progress
from headwater.errors import HeadwaterError, InternalError

PANEL = "Applications"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(rich_help_panel=PANEL, epilog=examples("headwater run app.py --once"))(run)


def run(
    application: Application,
    *,
    once: Annotated[bool, typer.Option("--once", help="End when the views are where the log is now.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per batch.")] = False,
) -> None:
    """Keep the views of an application up to date, until Ctrl-C.

    Files `*.sql` beside the application are views, too: revenue.sql is the view revenue. Ctrl-C and SIGTERM let the
    batch that is running end. Another run of the same application takes over from this one.
    """
    with load(application) as app, Ending() as ending, capturing(app) as running:
        try:
            running.wait_until_ready(lambda: ending.asked)
            with steps() as step:
                app.plan(step)
                step("Opening the views")
                batches = _batches(app, ending, running, once=once)
            done = _watch(app, batches, ending, as_json=as_json)
        except KeyboardInterrupt:
            if not ending.asked:
                raise
            done = None
        reached = app.published()
    if once and ending.asked and (done is None or not done.caught_up):
        raise typer.Exit(INTERRUPTED)
    if reached is not None and done is None:
        say(f"The views are at position {reached.position}; there was nothing to do.")


def _batches(app: App, ending: Ending, running: Captures, *, once: bool) -> Iterator[Progress]:
    # Spark has put its own answer to Ctrl-C in place when it started, which ends the batch.
    ending.install()
    if once:
        return app.batches()
    return _checked(app.pipeline.follow(lambda: ending.asked or running.failure is not None), running)


def _checked(batches: Iterator[Progress], running: Captures) -> Iterator[Progress]:
    """The batches; then raises what ended a capture, if that is why there are no more."""
    yield from batches
    running.check()


def _watch(app: App, batches: Iterator[Progress], ending: Ending, *, as_json: bool) -> Progress | None:
    """Shows batches until there are no more, or until somebody wants them to end; the last one."""
    progress = None
    with display(app.name, list(app.views), as_json=as_json) as show, ending.patient():
        try:
            for progress in batches:
                show(progress)
                if ending.asked:
                    break
        except Exception as error:
            # Who ends a whole group of processes ends Spark, too, in the middle of what it does.
            expected = isinstance(error, HeadwaterError) and not isinstance(error, InternalError)
            if expected or not ending.asked:
                raise
            say("Ended in the middle of a batch, of which nothing has happened.")
    return progress


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
        say("Ending after the running batch, if there is one; Ctrl-C again ends at once, and loses nothing either.")
