"""The captures of an application, run beside a command, with their messages and a progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.app import App
from headwater.cli.output import say
from headwater.cli.progress import Bar
from headwater.connectors.running import Captures


@contextmanager
def capturing(app: App) -> Iterator[Captures]:
    """Runs the captures of all sources of an application; of one without sources, none."""
    with Bar("Reading tables") as bar:

        def progress(table: str, done: int, total: int) -> None:
            bar(done, total, table)

        with Captures([source.capture(say=say, progress=progress) for source in app.sources.values()]) as captures:
            yield captures
