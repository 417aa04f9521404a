"""Reading the files of a database beside SQLite, without taking its locks away.

SQLite's locks are POSIX's: when a process closes any descriptor of a file, it loses all locks that it has on that file,
the one that took them. A database that is open would then be open to others as if nobody used it. So what is read here
is kept open until this process has no connection to the database any more.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

_turn = threading.Lock()
_connections: Counter[str] = Counter()
_descriptors: dict[str, list[int]] = {}


def note_open(path: Path) -> None:
    """Before a connection to a database is opened."""
    with _turn:
        _connections[_key(path)] += 1


def note_closed(path: Path) -> None:
    """After a connection was closed, or could not be opened."""
    with _turn:
        key = _key(path)
        _connections[key] -= 1
        if not _connections[key]:
            del _connections[key]
            for descriptor in _descriptors.pop(key, ()):
                os.close(descriptor)


def read_file(path: Path, database: Path) -> bytes:
    """The content of a database's file, or of a file beside it. Raises `FileNotFoundError`."""
    with _turn:
        descriptors = _descriptors.setdefault(_key(database), [])
        descriptor = _opened(path, descriptors)
        try:
            return _content(descriptor)
        finally:
            if not _connections[_key(database)]:
                del _descriptors[_key(database)]
                for held in descriptors:
                    os.close(held)


def _opened(path: Path, descriptors: list[int]) -> int:
    """A descriptor of the file that has this name now."""
    for descriptor in descriptors:
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
    descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    return descriptors[-1]


def _content(descriptor: int) -> bytes:
    size, parts, offset = os.fstat(descriptor).st_size, [], 0
    while offset < size and (part := os.pread(descriptor, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _key(path: Path) -> str:
    return os.path.realpath(path)
