"""What is shown while an application runs: a spinner, then a live table, a line now and then, or JSON per batch."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Protocol, Self

from rich.console import Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headwater.cli.output import count, messages, say
from headwater.cli.quantities import format_age, format_size
from headwater.engine.arrangements import view_sizes
from headwater.engine.manifest import Size
from headwater.engine.pipeline import BuildProgress, Progress
from headwater.model.encoding import format_instant

DIGEST_SECONDS = 10.0
"""How often a run without a terminal says what it has done."""
DIGEST_LOOK_SECONDS = 0.5


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """A spinner on standard error that says what is happening; without a terminal nothing is shown."""
    console = messages()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield lambda step: status.update(f"{step} …")


class Display(Protocol):
    """Shows batches; a context, so that it can tidy up."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, progress: Progress) -> None: ...


def display(name: str, views: Sequence[str], *, as_json: bool) -> Display:
    """What fits where the program runs."""
    if as_json:
        return Lines(_print_json)
    return Board(name, views) if messages().is_terminal else Digest()


class Lines:
    """One line per batch."""

    def __init__(self, line: Callable[[Progress], None]) -> None:
        self._line = line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, progress: Progress) -> None:
        self._line(progress)


class Digest:
    """One line with a time for all batches of `DIGEST_SECONDS`.

    The first batch has a line of its own, and records that are set aside are told at once.
    """

    def __init__(self) -> None:
        self._last: Progress | None = None
        self._batches = self._records = self._changed = 0
        self._due_at = 0.0
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headwater-digest", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with self._turn:
            self._tell()

    def __call__(self, progress: Progress) -> None:
        with self._turn:
            self._last, self._batches = progress, self._batches + 1
            self._records += progress.records
            self._changed += sum(progress.changes.values())
            if progress.excluded or time.monotonic() >= self._due_at:
                self._tell()

    def _run(self) -> None:
        """Also tells of the last batches before a pause, when their line is due."""
        while not self._ended.wait(DIGEST_LOOK_SECONDS):
            with self._turn:
                if time.monotonic() >= self._due_at:
                    self._tell()

    def _tell(self) -> None:
        last = self._last
        if last is None or not self._batches:
            return
        now = format_instant(datetime.now(UTC).replace(microsecond=0))
        say(f"{now} {_digest_line(last, self._batches, self._records, self._changed)}")
        self._batches = self._records = self._changed = 0
        self._due_at = time.monotonic() + DIGEST_SECONDS


class Board:
    """A live table of the pipeline and its views, on the terminal."""

    def __init__(self, name: str, views: Sequence[str]) -> None:
        self._name, self._views = name, views
        self._changed: Counter[str] = Counter()
        self._records = self._batches = 0
        waiting = Spinner("dots", "The first batch …")
        self._live = Live(waiting, console=messages(), refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, progress: Progress) -> None:
        self._changed.update(progress.changes)
        self._records += progress.records
        self._batches += 1
        self._live.update(self.page(progress), refresh=True)

    def page(self, progress: Progress) -> Group:
        """The table after a batch."""
        pipeline = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        cells = [*_figures(progress).items(), ("records so far", f"{self._records:,}")]
        for title, _ in cells:
            pipeline.add_column(title, justify="right", no_wrap=True)
        pipeline.add_row(*(text for _, text in cells))
        views = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        views.add_column("view", overflow="fold")
        for title in ("rows changed", "since start", "size"):
            views.add_column(title, justify="right", no_wrap=True)
        sizes = view_sizes(progress.state)
        for view in self._views:
            size = sizes.get(view, Size(0, 0, 0))
            changed, total = progress.changes.get(view, 0), self._changed[view]
            views.add_row(Text(view), f"{changed:,}", f"{total:,}", format_size(size.bytes))
        heading = Text.assemble((self._name, "bold"), f"  {_standing(progress)}. Ctrl-C ends it.")
        return Group(heading, Text(), pipeline, Text(), views)


def progress_json(progress: Progress) -> dict[str, object]:
    """A batch as JSON: durations in seconds, sizes in bytes."""
    views = view_sizes(progress.state)
    return {
        "batch": progress.batch,
        "position": str(progress.position),
        "behind": progress.behind,
        "caught_up": progress.caught_up,
        "records": progress.records,
        "records_per_second": round(_rate(progress), 1),
        "seconds": round(progress.duration.total_seconds(), 6),
        "freshness_seconds": None if progress.freshness is None else round(progress.freshness.total_seconds(), 6),
        "state_bytes": _state_bytes(progress.state),
        "views": {
            view: {"changed": progress.changes.get(view, 0), "bytes": views[view].bytes if view in views else 0}
            for view in sorted({*views, *progress.changes})
        },
        "build": None if progress.build is None else asdict(progress.build),
        "operators": {
            str(number): {"rows_in": given, "rows_out": made} for number, (given, made) in progress.operators.items()
        },
        "excluded": [
            {"view": one.view, "topic": one.topic, "partition": one.partition, "offset": one.offset,
             "reason": one.reason}
            for one in progress.excluded
        ],
    }  # fmt: skip


def progress_line(progress: Progress) -> str:
    """A batch in one line."""
    if progress.build is not None:
        return f"{build_line(progress.build)}; batch {progress.batch}, in {_seconds(progress.duration)}."
    changed = sum(progress.changes.values())
    parts = [f"Batch {progress.batch}: {count(progress.records, 'record')}, {count(changed, 'changed row')} of views"]
    parts.append(f"in {_seconds(progress.duration)}")
    aside = f"; {count(len(progress.excluded), 'record')} set aside" if progress.excluded else ""
    return f"{' '.join(parts)}; {_standing(progress)}{aside}."


def build_line(build: BuildProgress) -> str:
    """How far views are that are built beside the former ones."""
    left = "" if build.seconds_left is None else f", {format_age(build.seconds_left)} left"
    return f"Building {', '.join(build.views)}: {build.done:,} of {count(build.total, 'record')}{left}"


def _digest_line(last: Progress, batches: int, records: int, changed: int) -> str:
    """Several batches in one line."""
    if batches == 1:
        return progress_line(last)
    done = f"{batches:,} batches: {count(records, 'record')}, {count(changed, 'changed row')} of views"
    aside = f"; {count(len(last.excluded), 'record')} set aside" if last.excluded else ""
    return f"{done}; {_standing(last)}{aside}."


def _standing(progress: Progress) -> str:
    if progress.build is not None:
        return build_line(progress.build)
    behind = "up to date" if progress.behind <= 0 else f"{count(progress.behind, 'commit')} behind"
    return f"position {progress.position}, {behind}"


def _figures(progress: Progress) -> dict[str, str]:
    freshness = progress.freshness
    return {
        "position": str(progress.position),
        "behind": f"{progress.behind:,}",
        "records/s": f"{_rate(progress):,.0f}",
        "batch": _seconds(progress.duration),
        "freshness": "-" if freshness is None else _seconds(freshness),
        "state": format_size(_state_bytes(progress.state)),
    }


def _seconds(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    return f"{seconds:.1f}s" if seconds < 60 else format_age(seconds)


def _rate(progress: Progress) -> float:
    seconds = progress.duration.total_seconds()
    return progress.records / seconds if seconds else 0.0


def _state_bytes(state: Mapping[str, Size]) -> int:
    return sum(size.bytes for size in state.values())


def _print_json(progress: Progress) -> None:
    sys.stdout.write(json.dumps(progress_json(progress), ensure_ascii=False) + "\n")
    sys.stdout.flush()
