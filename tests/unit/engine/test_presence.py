"""Presence: who runs a pipeline is known by a lock that dies with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from headwater.engine.presence import Turn, present

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
        with present(tmp_path / "shop"), present(tmp_path / "shop"):
            assert not turn.has_come()
        assert turn.has_come()
        assert turn.has_come(), "it stays"


def test_a_turn_that_has_come_is_a_run(tmp_path: Path) -> None:
    with Turn(tmp_path) as second:
        with Turn(tmp_path) as first:
            assert first.has_come()
            assert not second.has_come()
            with present(tmp_path):
                # A run that is started as usual fences, and does not wait.
                assert not second.has_come()
        assert second.has_come()


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
