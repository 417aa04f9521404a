"""The captures and the webhooks of an application, run beside a command, with their messages and a progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.app import App
from headwater.cli.output import say
from headwater.cli.progress import Bar
from headwater.connectors.running import Captures, Runs


@contextmanager
def capturing(app: App, *, sending: bool = False) -> Iterator[Captures]:
    """Runs the captures of all sources of an application, and what sends its webhooks if it is asked for."""
    with Bar("Reading tables") as bar:

        def progress(table: str, done: int, total: int) -> None:
            bar(done, total, table)

        captures: list[Runs] = [source.capture(say=say, progress=progress) for source in app.sources.values()]
        with Captures(captures, app.senders(say=say) if sending else ()) as running:
            yield running
