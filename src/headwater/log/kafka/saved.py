"""Saved replicas: copies of a log's catalog in the user's cache, so that a process reads only what came since."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from headwater.log.embedded.catalog import FORMAT
from headwater.system.sqlite import Error, connect

_ENDING = ".db"


class SavedReplicas:
    """The saved replicas of one log. A file is named after the offset up to which it has the changes of the catalog.

    A cache that cannot be written, or read, is as good as none.
    """

    def __init__(self, identity: str) -> None:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._directory = root / "headwater" / f"replicas-{FORMAT}" / identity

    def load(self, path: Path) -> int:
        """Copies the newest to a path; up to which offset it is. 0 if there is none, and then no file."""
        for offset, saved in sorted(self._found(), reverse=True):
            with suppress(OSError):
                shutil.copyfile(saved, path)
                if _is_sound(path):
                    return offset
            # Damaged: nobody tries it again.
            self._discard(saved)
            for left in path.parent.glob(f"{path.name}*"):
                left.unlink()
        return 0

    def save(self, path: Path, offset: int) -> None:
        """Keeps a copy of a database that has all changes before an offset, and all of them in its file."""
        with suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            begun = self._directory / f"{uuid.uuid4().hex}.begun"
            try:
                shutil.copyfile(path, begun)
                begun.rename(self._directory / f"{offset}{_ENDING}")
            finally:
                self._discard(begun)
            for older, saved in self._found():
                if older < offset:
                    self._discard(saved)

    def _found(self) -> list[tuple[int, Path]]:
        with suppress(OSError):
            files = [path for path in self._directory.iterdir() if path.suffix == _ENDING and path.stem.isdigit()]
            return [(int(path.stem), path) for path in files]
        return []

    @staticmethod
    def _discard(path: Path) -> None:
        with suppress(OSError):
            path.unlink()


def _is_sound(path: Path) -> bool:
    """Whether every page of a database is as it was written."""
    try:
        connection = connect(path, synchronous="NORMAL")
        try:
            return bool(connection.execute("PRAGMA quick_check").fetchone() == ("ok",))
        finally:
            connection.close()
    except Error:
        return False
