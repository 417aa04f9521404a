"""The blob port: immutable bytes under a name, in which runs of state and of views are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A blob that is there. `written_at` is in microseconds."""

    name: str
    size: int
    written_at: int


class OpenBlob(Protocol):
    """A blob that is being read. What it gave stays good when it is closed, and when the blob is deleted."""

    @property
    def size(self) -> int: ...

    def read(self, start: int, length: int) -> pa.Buffer:
        """A copy of `length` bytes from `start` on, or as many as there are. For small pieces.

        Raises `FileUnreadable`.
        """
        ...

    def view(self, start: int, length: int) -> pa.Buffer:
        """As `read`, for large pieces, all of which have to be there: where the blob is local, memory that is mapped.

        Then only what is touched takes memory, so the caller has compared `size` first. Raises `FileUnreadable`.
        """
        ...


class Blobs(Protocol):
    """A place for blobs, which any number of processes use at once.

    A name is used once, and what it names never changes: a blob that was read may be kept. Names are made by those
    who put blobs there, and no process relies on a blob before it was told that the blob is there.
    """

    @property
    def address(self) -> str:
        """What another process opens the same place with."""
        ...

    def put(self, name: str, parts: Iterable[bytes | memoryview | pa.Buffer], *, durable: bool = True) -> None:
        """Writes a blob: `parts`, one behind the other, each taken when it is due.

        When it returns, the blob is there for every process; if `durable`, also after a power cut. If it raises or the
        process dies, there may be a blob with this name that has a part of the bytes: nobody was told of it, and
        `list` shows it. Raises `DiskFull`, `TooManyOpenFiles`, `StorageFailed` and `StoreUnavailable`.
        """
        ...

    def open(self, name: str) -> AbstractContextManager[OpenBlob]:
        """Opens a blob for reading.

        Raises `BlobMissing`, `FileUnreadable`, `TooManyOpenFiles` and `StoreUnavailable`.
        """
        ...

    def size(self, name: str) -> int | None:
        """The size of a blob; None if there is none with this name."""
        ...

    def list(self) -> Iterator[BlobInfo]:
        """Every blob that is there; one that comes or goes meanwhile may be left out."""
        ...

    def delete(self, name: str) -> None:
        """Removes a blob, if there is one. Where that fails it stays, and `list` still shows it."""
        ...

    def dropped(self, names: Iterable[str]) -> set[str]:
        """Those of some blobs that a process may let go of: where they are read from, they are not there any more.

        It costs little: nothing far away is asked.
        """
        ...
