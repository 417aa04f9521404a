"""Checkpoints: what stands in a write-ahead log goes into its database, but only if it is still what was written.

SQLite copies pages out of the log without looking at the frames' checksums, and gives them new ones: damage would be
made to look sound.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import apsw

from headwater.system.pages import BadPage, damaged_frames
from headwater.system.sqlite import Connection, Error, driver

FRAMES_MAX = 1000
"""A write-ahead log that is longer is copied into its database."""


class Checkpoints:
    """The checkpoints of the connection that writes. They are called for outside of transactions."""

    def __init__(self, path: Path, connection: Connection) -> None:
        self._path, self._connection = path, driver(connection)
        self._frames = 0
        self.damage: BadPage | None = None
        """What was found in the log. From then on it stays as it is."""
        self._connection.set_wal_hook(self._count)

    def run_if_due(self) -> None:
        """After a commit: copies the log if it has become long. The next writer sees a failure."""
        if self._frames >= FRAMES_MAX and self.damage is None:
            with suppress(Error, OSError):
                if self._is_sound():
                    self._connection.wal_checkpoint()

    def close(self) -> None:
        """Closes the connection. If it has written something and is the last one, the log is copied and goes."""
        with suppress(Error, OSError):
            # If somebody else is writing, this is not the last one.
            self._connection.set_busy_timeout(0)
            if self._frames and self.damage is None and self._is_sound():
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        self._connection.close()

    def _is_sound(self) -> bool:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self.damage = next(damaged_frames(self._path), None)
        finally:
            self._connection.execute("ROLLBACK")
        return self.damage is None

    def _count(self, connection: apsw.Connection, database: str, frames: int) -> int:
        self._frames = frames
        return apsw.SQLITE_OK
