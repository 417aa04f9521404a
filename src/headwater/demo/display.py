"""What the demo says in the terminal: how it comes up, where to look, and what to try."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.panel import Panel
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from headwater.demo.database import Database

NOTE_LENGTH_MAX = 60


class Step:
    """Something that takes a while, with a note about what it does right now."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def note(self, text: str) -> None:
        self._progress.update(self._task, note=text[:NOTE_LENGTH_MAX])


class Display:
    """Progress on a terminal; without one, a line for each step that is done."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}[/]"),
            console=console,
            disable=not console.is_terminal,
        )

    @contextmanager
    def coming_up(self) -> Iterator[None]:
        """Within it, steps are shown."""
        with self._progress:
            yield

    @contextmanager
    def step(self, text: str) -> Iterator[Step]:
        began = time.monotonic()
        task = self._progress.add_task(text, total=1, note="")
        yield Step(self._progress, task)
        self._progress.update(task, completed=1, note="")
        if not self.console.is_terminal:
            self.say(f"{text}: {time.monotonic() - began:.1f} s")

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def announce(self, url: str, database: Database, seconds: float) -> None:
        """The shop is open."""
        lines = [
            ("bold", f"The shop is open: {url}\n"),
            ("dim", f"{seconds:.0f} s after the command; everything is in a temporary folder.\n\n"),
            ("bold", "Look\n"),
            ("", f"  {url}/#/flow                        database, topics, views, sinks, live\n"),
            ("", f"  {url}/#/views/revenue_by_country    rows that change as people buy; then Verify\n"),
            ("", f"  {url}/#/search                      orders in another database, kept in step by a sink\n"),
            ("", f"  {url}/#/break-it                    break it, and watch it recover\n\n"),
            ("bold", "Try\n"),
            ("", f"  curl -N {url}/views/top_products_this_hour/changes\n"),
            ("", f"  curl {url}/views/customer_lifetime_value/rows/7\n"),
            ("", f"  curl -X POST {url}/demo/kill-pipeline\n"),
            ("", f"  psql {database.url} -c \"UPDATE products SET name = 'Best seller' WHERE id = 1\"\n"),
            ("", f'  psql {database.reports_url} -c "SELECT * FROM revenue"\n\n'),
            ("dim", "Ctrl-C ends it and leaves nothing behind."),
        ]
        if not self.console.is_terminal:
            self.say("".join(text for _, text in lines))
            return
        self.console.print(Panel(Text.assemble(*((text, style) for style, text in lines)), expand=False))
