"""A function of the user's as a sink: it gets every change, in order, with its position, until it takes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.engine.parts import Report, Stop
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.function import FunctionSink
from headwater.engine.subscription import Changes
from headwater.errors import TargetFailed
from tests.channels.posts import HUSH
from tests.contract.sinks.feeding import Keyed
from tests.webhooks.receiver import until
from tests.webhooks.sending import QUICK, Feeding

ROOT = Path(__file__).parents[2]


def feeding(view: Keyed, function: Callable[[Changes], object]) -> Feeding:
    return Feeding(view.directory, FunctionSink(function), "content")


def test_a_decorated_function_is_a_sink(tmp_path: Path) -> None:
    with hw.App("shop", log=tmp_path / "log") as app:

        @app.sink_function(view="v", start="content")
        def to_spreadsheet(changes: hw.sinks.Changes) -> None:
            pass

        app.sink_function("other", view="v")(to_spreadsheet)
        assert {name: (feed.view, feed.start, feed.sink.kind) for name, feed in app.sinks.items()} == {
            "to_spreadsheet": ("v", "content", "function"),
            "other": ("v", "now", "function"),
        }


def test_what_was_taken_in_a_backlog_does_not_come_again_after_a_failure(view: Keyed) -> None:
    first = feeding(view, lambda _: None)
    until(lambda: first.at() == 1)
    first.stop()
    for number in range(5):
        view.publish(k1=f"one {number}")
    came: list[str] = []

    def fails(changes: Changes) -> None:
        came.append(str(changes.position))
        if len(came) == 3:
            raise TargetFailed("enough", "gone")

    made = feeding(view, fails)
    until(lambda: made.status().status == "paused")
    assert made.at() == 3
    made.stop()
    again = feeding(view, fails)
    until(lambda: again.at() == 6)
    again.stop()
    assert came == ["2", "3", "4", "4", "5", "6"]


@pytest.mark.parametrize(("error", "status"), [(ConnectionError("no"), "retrying"), (ValueError("no"), "paused")])
def test_errors_of_connections_pass_and_others_pause_it(view: Keyed, error: Exception, status: str) -> None:
    calls = 0

    def fails(_: Changes) -> None:
        nonlocal calls
        calls += 1
        raise error

    made = feeding(view, fails)
    until(lambda: made.status().failures >= 3 and made.status().status == status)
    assert made.status().status == status
    made.stop()


def test_urls_in_what_a_function_raises_are_shown_without_their_secrets(view: Keyed) -> None:
    def fails(_: Changes) -> None:
        raise ValueError(f"cannot reach https://me:{HUSH}@example.com:8443/{HUSH}?token={HUSH} or db://{HUSH}@db")

    made = feeding(view, fails)
    until(lambda: made.status().status == "paused")
    made.stop()
    shown = f"{made.said} {made.status()}"
    assert "raises ValueError: cannot reach https://example.com:8443 or db://db" in shown
    assert HUSH not in shown


def test_only_the_last_call_comes_again_after_a_kill(view: Keyed, tmp_path: Path) -> None:
    written = tmp_path / "written"

    def run(last: int) -> int:
        command = [sys.executable, "-m", "tests.channels.test_function", str(view.directory), str(written), str(last)]
        return subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode

    assert run(1) == 0
    for number in range(4):
        view.publish(k1=f"one {number}")
    assert [run(5), run(5), run(5)] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert written.read_text().split() == ["1", "2", "3", "3", "4", "4", "5"]


def main() -> None:
    """Feeds a function that dies in its second call, after its work is done, unless the last position comes before."""
    directory, written, last = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    calls, stop = 0, Stop()

    def write(changes: Changes) -> None:
        nonlocal calls
        calls += 1
        with written.open("a") as file:
            file.write(f"{changes.position}\n")
        if str(changes.position) == last:
            stop.set()
        elif calls == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    Feed(directory, "out", "v", FunctionSink(write), "content", QUICK).run(stop, Report())


if __name__ == "__main__":
    main()
