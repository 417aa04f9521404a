"""The file operations that headwater needs, in one place, so that a test can make each of them fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import DiskFull, ExternalError, FileUnreadable, StorageFailed, TooManyOpenFiles

if TYPE_CHECKING:
    from headwater.system.sqlite import Connection

# What the operating system says when there is no room: the disk, the quota, the process's file size limit.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# What it says when there are too many open files: of the process, of the machine.
NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})
# What it says where this process may not write.
READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class Storage:
    """Real files. Every write names its position, so a write that is repeated changes nothing."""

    def make_directory(self, path: Path) -> None:
        """Makes a directory, if it is missing, inside one that is there."""
        path.mkdir(exist_ok=True)

    def open(self, path: Path) -> int:
        """Opens a file for reading and writing, and creates it if it is missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, fd: int, path: Path, position: int, parts: Sequence[bytes | memoryview]) -> None:
        """Writes all parts one after the other from `position` on."""
        wanted = sum(len(part) for part in parts)
        done = os.pwritev(fd, parts, position)
        if done < wanted:
            # A short write is what a disk that fills up answers first; the rest says why.
            rest = b"".join(parts)[done:]
            while rest:
                written = os.pwrite(fd, rest, position + done)
                done, rest = done + written, rest[written:]

    def sync(self, fd: int, path: Path) -> None:
        """Returns when everything written to the file is on the disk."""
        os.fdatasync(fd)

    def close(self, fd: int) -> None:
        """Closes a file."""
        os.close(fd)

    def sync_directory(self, path: Path) -> None:
        """Returns when the names in the directory are on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self) -> None:
        """Returns when everything that was written before is on the disk, whatever file it is in."""
        os.sync()

    def truncate(self, fd: int, path: Path, size: int) -> None:
        """Cuts the file to its first `size` bytes."""
        os.ftruncate(fd, size)

    def remove(self, path: Path) -> None:
        """Removes the file, if it is there."""
        path.unlink(missing_ok=True)

    def discard(self, path: Path) -> None:
        """Removes a file that nothing names any more. Where that fails, the next sweep of `Upkeep` does it."""
        with suppress(OSError):
            self.remove(path)

    def commit(self, connection: Connection) -> None:
        """Ends the catalog's transaction: the moment at which everything in it becomes true."""
        connection.execute("COMMIT")


def storage_error(error: OSError, path: Path) -> ExternalError:
    """What the caller should see when writing to `path` failed before the catalog's commit."""
    if error.errno in NO_ROOM:
        return DiskFull(str(path))
    if error.errno in NO_FILES:
        return TooManyOpenFiles(str(path))
    return StorageFailed(str(path), error.strerror or str(error))


def reading_error(error: OSError, path: Path) -> ExternalError:
    """What the caller should see when a file that is there cannot be opened."""
    if error.errno in NO_FILES:
        return TooManyOpenFiles(str(path))
    return FileUnreadable(str(path), error.strerror or str(error))
