"""The folder that everything of one demo is in: made, held, and gone afterwards."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import Self

PREFIX = "headwater-demo-"
LOCK = "lock"


class Folder:
    """A folder of its own within a `with` block. One that a killed demo has left is removed by the next."""

    def __init__(self) -> None:
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = (self.path / LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / "tmp").mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def sweep() -> None:
    """Removes folders of demos that do not run any more."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            with (path / LOCK).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            # It runs, or it belongs to somebody else.
            continue
