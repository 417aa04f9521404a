"""A witness of how far a database had come: a small file beside it that says so once the commit is durable.

A damaged write-ahead log ends for SQLite where the damage begins, and later commits are gone without a word; so are all
of them if the file is missing. The witness knows better. It is written in place and never synced: after a crash it may
be older than the database, but it is never newer.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import xxhash

_RECORD = struct.Struct("<8sQQQ")
_MAGIC = b"hwwitn01"
_ANY_BOOT = 0


class Witness:
    """`durable`: what it is told of outlives a power cut. Otherwise its word counts until the next boot."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._path, self._boot = path, _ANY_BOOT if durable else _boot()
        self._fd: int | None = None

    def note(self, version: int) -> None:
        """The database has come to this version, and will not be found at an older one. Raises `OSError`."""
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fields = (_MAGIC, version, self._boot)
        os.pwrite(self._fd, _RECORD.pack(*fields, _checksum(*fields)), 0)

    def version(self) -> int:
        """The oldest version that the database may have; 0 if the witness does not know."""
        record = self._read()
        if len(record) != _RECORD.size:
            return 0
        magic, version, boot, checksum = _RECORD.unpack(record)
        known = checksum == _checksum(magic, version, boot) and boot in (_ANY_BOOT, _boot())
        return int(version) if known else 0

    def is_damaged(self) -> bool:
        """Whether there is a record that is not as it was written. A crash may leave none, or a part of one."""
        record = self._read()
        if len(record) < _RECORD.size or not any(record):
            return False
        magic, version, boot, checksum = _RECORD.unpack(record[: _RECORD.size])
        return len(record) > _RECORD.size or bool(checksum != _checksum(magic, version, boot))

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""


def _checksum(magic: bytes, version: int, boot: int) -> int:
    return xxhash.xxh3_64_intdigest(struct.pack("<8sQQ", magic, version, boot))


def _boot() -> int:
    """A number for the time since the machine started."""
    return xxhash.xxh3_64_intdigest(Path("/proc/sys/kernel/random/boot_id").read_bytes())
