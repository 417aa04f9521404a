"""The captures and the webhooks of an application, run beside a command, with their messages and a progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.app import App
from headwater.cli.output import complain, say
from headwater.cli.progress import Bar
from headwater.connectors.running import Captures, Runs
from headwater.engine.parts import Report
from headwater.engine.sinks.feed import Feed
from headwater.errors import UnknownView


class Saying(Report):
    """Shows what a run tells on stderr."""

    def say(self, text: str) -> None:
        say(text)

    def warn(self, text: str) -> None:
        complain(text)


def feeds_of(app: App) -> list[Feed]:
    """What feeds the sinks, each to be run in a thread. Raises `UnknownView`."""
    for feed in app.sinks.values():
        if feed.view not in app.views:
            raise UnknownView(feed.view, list(app.views))
    return list(app.sinks.values())


@contextmanager
def capturing(app: App, *, sending: bool = False) -> Iterator[Captures]:
    """Runs the captures of all sources of an application, and what sends its webhooks if it is asked for."""
    with Bar("Reading tables") as bar:

        def progress(table: str, done: int, total: int) -> None:
            bar(done, total, table)

        captures: list[Runs] = [source.capture(say=say, progress=progress) for source in app.sources.values()]
        with Captures(captures, feeds_of(app) if sending else (), Saying()) as running:
            yield running
