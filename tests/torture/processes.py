"""The processes of an application under torture: started, found by what they are, killed, and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

HEADWATER = (sys.executable, "-c", "import headwater.cli; headwater.cli.main()")
ROOT = Path(__file__).parents[2]


class Command:
    """A `headwater` command in its own session. What it says goes to a file."""

    def __init__(self, directory: Path, name: str, *arguments: str) -> None:
        self.name, self._directory, self._arguments = name, directory, arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def has_started(self) -> bool:
        return self._process is not None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (self._directory / f"{self.name}.said").open("ab") as said:
            self._process = subprocess.Popen(
                [*HEADWATER, *self._arguments], cwd=self._directory, env={**os.environ, "PYTHONPATH": paths},
                stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def signal(self, number: signal.Signals, *, all_below: bool = False) -> None:
        """Sends a signal to it, or also to everything that it started."""
        for pid in [self.pid, *(below(self.pid) if all_below else ())]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self, *, all_below: bool = True) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL, all_below=all_below)
            self._process.wait()

    def end(self) -> None:
        """Asks it to end, and waits until it has."""
        if self.is_alive and self._process is not None:
            self.signal(signal.SIGTERM)
            self._process.wait(120)

    def wait(self, seconds: float) -> int:
        assert self._process is not None
        return self._process.wait(seconds)

    def said(self) -> str:
        return (self._directory / f"{self.name}.said").read_text()[-3000:]


def below(process: int, words: str = "") -> list[int]:
    """The processes below one, at any depth, whose command has these words."""
    every = [other for child in _children(process) for other in [child, *below(child)]]
    return [one for one in every if words in _command(one)]


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def _children(process: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += [int(child) for child in path.read_text().split()]
    return found


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
