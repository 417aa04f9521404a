"""Presence: who runs a pipeline is known by a lock that dies with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.engine import presence
from headwater.engine.presence import Turn, present
from headwater.errors import AlreadyRunning
from headwater.system.heartbeat import Heart

HOLD = """
import sys, time
from pathlib import Path
from headwater.engine.presence import present
with present(Path(sys.argv[1])):
    print("holds", flush=True)
    time.sleep(600)
"""


def test_a_turn_comes_when_nobody_runs(tmp_path: Path) -> None:
    with Turn(tmp_path / "shop") as turn:
        with present(tmp_path / "shop"), present(tmp_path / "shop", take_over=True):
            assert not turn.has_come()
        assert turn.has_come()
        assert turn.has_come(), "it stays"


def test_a_turn_that_has_come_is_a_run(tmp_path: Path) -> None:
    with Turn(tmp_path) as second:
        with Turn(tmp_path) as first:
            assert first.has_come()
            assert not second.has_come()
            with present(tmp_path, take_over=True):
                # A run that takes over fences, and does not wait.
                assert not second.has_come()
        assert second.has_come()


def test_a_second_run_is_told_who_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "ENDING_SECONDS_MAX", 0.1)
    with present(tmp_path), Heart(tmp_path), pytest.raises(AlreadyRunning) as caught, present(tmp_path):
        pass
    assert (caught.value.application, caught.value.pid) == (tmp_path.name, os.getpid())
    assert datetime.fromisoformat(caught.value.since) <= datetime.now(UTC)
    assert f"process {os.getpid()} on " in caught.value.message
    assert "--take-over" in caught.value.hint


def test_a_run_waits_for_one_that_is_ending(tmp_path: Path) -> None:
    with ExitStack() as first:
        first.enter_context(present(tmp_path))
        ending = threading.Timer(0.3, first.close)
        ending.start()
        with present(tmp_path):
            pass
        ending.join()


def test_one_of_many_that_begin_at_once_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "ENDING_SECONDS_MAX", 0.2)
    results: list[str] = []
    done = threading.Barrier(8)

    def begin() -> None:
        try:
            with present(tmp_path):
                results.append("runs")
                done.wait(30)
        except AlreadyRunning:
            results.append("refused")
            done.wait(30)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.count("runs") <= 1
    assert len(results) == 8


def test_a_process_that_is_killed_runs_no_more(tmp_path: Path) -> None:
    with (
        subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder,
        Turn(tmp_path) as turn,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holds\n"
        assert not turn.has_come()
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert turn.has_come()
