"""Children of the demo end when they are told to, with all that they have started, and when their parent is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from headwater.demo.children import Child, members

PARENT = """
import sys, time
from pathlib import Path
from headwater.demo.children import Child

child = Child("sleeper", ["sleep", "1000"], Path(sys.argv[1]) / "log")
child.start()
print(child.pid, flush=True)
time.sleep(1000)
"""
GRANDCHILDREN = f"""
sleep 1000 &
{sys.executable} -c 'import os, time; os.setpgid(0, 0); time.sleep(1000)' &
setsid sleep 1000 &
echo started
sleep 1000
"""


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.01)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        until(lambda: Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"sleep"))
        parent.send_signal(signal.SIGKILL)
    until(lambda: not runs(child))


def test_a_child_is_killed_with_its_children(tmp_path: Path) -> None:
    child = Child("shell", ["sh", "-c", GRANDCHILDREN], tmp_path / "log")
    child.start()
    pid = child.pid
    assert pid is not None
    until(lambda: len(members(pid)) >= 5)
    all_of_it = members(pid)
    child.kill()
    until(lambda: not any(map(runs, all_of_it)))
    assert members(pid) == []
    assert not child.is_running()
    assert child.exit_code == -signal.SIGKILL
    assert child.last_line() == "started"
    child.start()
    assert child.starts == 2
    assert child.pid != pid
    child.kill()


def test_a_child_is_asked_before_it_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "log"
    willing = Child(
        "willing", ["sh", "-c", "trap 'echo bye; exit 7' TERM; echo on; while :; do sleep 0.05; done"], said
    )
    willing.start()
    until(lambda: willing.last_line() == "on")
    willing.end(signal.SIGTERM, 10)
    assert (willing.exit_code, willing.last_line()) == (7, "bye")
    deaf = Child("deaf", ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"], said)
    deaf.start()
    until(lambda: deaf.last_line() == "deaf")
    deaf.end(signal.SIGTERM, 0.2)
    assert deaf.exit_code == -signal.SIGKILL


def test_a_child_that_never_ran_has_nothing_to_end(tmp_path: Path) -> None:
    child = Child("never", ["true"], tmp_path / "log")
    child.kill()
    child.end(signal.SIGTERM, 1)
    assert (child.pid, child.exit_code, child.tail(), list(tmp_path.iterdir())) == (None, None, "", [])
