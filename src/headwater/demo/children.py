"""Child processes of the demo: started so that they end with it, and ended with all that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TETHER = Path(__file__).with_name("tether.py")
POLL_SECONDS = 0.02
TAIL_BYTES = 4000


@dataclass
class Child:
    """A program in a session of its own, with what it says in a file.

    `farewell` is the signal that the kernel sends it when this process is gone. Start it in the main thread: the kernel
    takes the end of the thread that starts it for the end of the parent.
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    farewell: signal.Signals = signal.SIGKILL
    user: str | None = None
    directory: Path = Path("/")
    starts: int = 0
    started_at: float = 0.0
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        tethered = [
            sys.executable,
            "-I",
            "-S",
            str(TETHER),
            str(os.getpid()),
            str(int(self.farewell)),
            self.user or "-",
        ]
        with self.log.open("ab") as said:
            self._process = subprocess.Popen(
                [*tethered, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, **self.environment},
                cwd=self.directory,
                start_new_session=True,
            )
        self.starts += 1
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.is_running() else None

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """Ends it and everything in its session as a power switch would; returns when nothing of it is left."""
        if self._process is None:
            return
        while left := members(self._process.pid):
            for each in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGKILL)
            self._process.poll()
            time.sleep(POLL_SECONDS)
        self._process.wait()

    def end(self, number: signal.Signals, seconds: float) -> None:
        """Asks it to end with a signal, and waits so long before it is killed."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        self.kill()

    def last_line(self) -> str:
        """What it has said last."""
        return self.tail().rpartition("\n")[2]

    def tail(self) -> str:
        """The last lines of what it has said."""
        with suppress(FileNotFoundError):
            return self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
        return ""


def members(leader: int) -> list[int]:
    """The processes of a session that still run, and those that they have started and that have left it.

    PostgreSQL's processes have sessions of their own, and Spark's workers process groups of their own.
    """
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        # It may end while it is looked at.
        with suppress(OSError):
            state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if state not in "ZX":
                found[int(entry.name)] = (int(parent), int(session))
    belonging = {leader, *(pid for pid, (_, session) in found.items() if session == leader)}
    while more := {pid for pid, (parent, _) in found.items() if parent in belonging} - belonging:
        belonging |= more
    return sorted(belonging & found.keys())
