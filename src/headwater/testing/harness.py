"""A harness for tests of applications: feed one, compare its views, replay its log, and kill it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from headwater.app import App
from headwater.engine.comparison import Difference, differences
from headwater.errors import UsageError
from headwater.loading import load
from headwater.log.opening import open_log
from headwater.log.port import Log
from headwater.model.encoding import python_rows
from headwater.model.position import START, Position
from headwater.model.rows import to_arrow
from headwater.testing.disk import seeded

SHOWN = 10
"""How many rows that differ a failure shows."""
REPLAY_STEPS_MAX = 12
"""A replay catches up in this many steps at most."""
_RESTARTS = 0.3
_FIRST_BATCH_SECONDS_MAX = 120.0
_KILL_SECONDS_MAX = 1.0
_FEED_SECONDS = 0.05

Define = Callable[[Log], App]
"""Defines an application over a log that is given."""


class Harness:
    """An application over a separate log in a folder, for tests.

    The application is a Python file, as `headwater run` takes it, or a function that defines it over a given log. A
    file gets the log of the folder, whichever it asks for. Sources, sinks and alerts do not run.
    """

    def __init__(self, application: str | Path | Define, folder: str | Path) -> None:
        self._application, self._folder = application, Path(folder) / "log"
        self.app = self._opened(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the application and its log."""
        _close(self.app)

    @property
    def log(self) -> Log:
        """The log, to append to."""
        return self.app.log

    def rows(self, view: str) -> list[dict[str, Any]]:
        """The rows of a view over everything that is in the log."""
        return python_rows(self._read(view))

    def expect(self, view: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Raises `AssertionError` unless a view has these rows, in any order. Values may be written as in `append`."""
        content = self._read(view)
        expected, rejected = to_arrow(rows, content.schema)
        if rejected:
            raise UsageError(
                f"An expected row does not fit view {view!r}: {rejected[0].reason}", hint=f"Columns: {content.schema}"
            )
        _require_none(f"View {view!r} is not what was expected", differences(content, expected))

    def verify(self, *views: str) -> None:
        """Raises `AssertionError` unless the views, or all of them, equal their SQL run by plain Spark over the log."""
        self.app.catch_up()
        for view in views or self.app.views:
            _require_none(f"View {view!r} is not what its SQL gives", self.app.verify(view).differences)

    def restart(self) -> None:
        """Opens log and application again, as a new process would."""
        self.close()
        self.app = self._opened(self._folder)

    def replay(self, *, seed: int = 0) -> None:
        """Raises `AssertionError` unless all views come out the same if they are built from the log again.

        The copy catches up in steps of random length, with restarts in between. That finds what is not a function of
        the log, such as an impure function. The same seed takes the same steps.
        """
        self.app.catch_up()
        expected = self.app.snapshot().tables
        self.close()
        with tempfile.TemporaryDirectory(prefix="headwater-replay-") as folder:
            copy = Path(folder) / "log"
            shutil.copytree(self._folder, copy)
            replayed = self._replayed(copy, seeded(seed))
        self.app = self._opened(self._folder)
        for view, content in expected.items():
            _require_none(f"View {view!r} differs when it is built again", differences(content, replayed[view]))

    def kill(self, feed: Callable[[Log], object], *, times: int = 1, seed: int = 0) -> None:
        """Runs the application in a separate process that is killed (SIGKILL), and then verifies all views.

        This happens that many `times`, at random moments after its first batch, while `feed` is called over and over to
        append to the log. Only for an application in a file.
        """
        if callable(self._application):
            raise UsageError(
                "Only an application in a file can run in another process.", hint="Harness('app.py', folder)."
            )
        self.close()
        random = seeded(seed)
        with open_log(self._folder) as log:
            for _ in range(times):
                _run_and_kill(str(self._application), self._folder, lambda: feed(log), random)
        self.app = self._opened(self._folder)
        self.verify()

    def _read(self, view: str) -> pa.Table:
        self.app.catch_up()
        return self.app.read(view)

    def _opened(self, folder: Path) -> App:
        if callable(self._application):
            return self._application(open_log(folder))
        return load(str(self._application), "create", log=folder)

    def _replayed(self, folder: Path, random: Random) -> Mapping[str, pa.Table]:
        app = self._opened(folder)
        try:
            app.delete_state()
            position, end = START, app.log.position()
            for _ in range(REPLAY_STEPS_MAX):
                position = _between(app.log, position, end, random)
                app.catch_up(position)
                if random.random() < _RESTARTS:
                    _close(app)
                    app = self._opened(folder)
            app.catch_up(end)
            return app.snapshot().tables
        finally:
            _close(app)


def _close(app: App) -> None:
    app.close()
    app.log.close()


def _between(log: Log, start: Position, end: Position, random: Random) -> Position:
    """A random position behind the start; near it rather than near the end."""
    for _ in range(random.randint(1, 6)):
        middle = log.between(start, end)
        if middle is None:
            break
        end = middle
    return end


def _require_none(what: str, found: Sequence[Difference]) -> None:
    if not found:
        return
    lines = [f"  {'too many' if one.surplus > 0 else 'missing'} ({abs(one.surplus)}): {one.row}" for one in found]
    more = [f"  and {len(found) - SHOWN:,} more"] if len(found) > SHOWN else []
    raise AssertionError("\n".join([f"{what}; {len(found):,} rows differ:", *lines[:SHOWN], *more]))


def _run_and_kill(application: str, folder: Path, feed: Callable[[], object], random: Random) -> None:
    command = [sys.executable, "-m", "headwater.testing.harness_process", application, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        _until_first_batch(process, feed)
        ends = time.monotonic() + random.random() * _KILL_SECONDS_MAX
        while time.monotonic() < ends:
            feed()
            time.sleep(_FEED_SECONDS)
    finally:
        # Spark's Java belongs to the same session.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _until_first_batch(process: subprocess.Popen[bytes], feed: Callable[[], object]) -> None:
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    ends = time.monotonic() + _FIRST_BATCH_SECONDS_MAX
    while not process.stdout.read():
        if process.poll() is not None:
            raise AssertionError(f"The application ended with exit code {process.returncode}; what it said is above.")
        if time.monotonic() > ends:
            raise AssertionError(f"No batch within {_FIRST_BATCH_SECONDS_MAX:.0f} s.")
        feed()
        time.sleep(_FEED_SECONDS)
