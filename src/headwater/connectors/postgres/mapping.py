"""Arrow files that are mapped, and not read: their rows lie in the page cache, and pages that were looked at can go."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

# How long pages stay that were looked at.
TRIM_SECONDS = 0.02


class MappedFiles:
    """Files of one commit, however large they are together."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []

    def read(self, path: Path) -> pa.Table:
        """The rows of a file, in the file."""
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).read_all()

    @contextmanager
    def trimmed(self) -> Iterator[None]:
        """While the block runs, pages that were looked at do not stay with the process: a commit looks at all of them.

        They come back from the page cache if they are looked at again.
        """
        done = threading.Event()

        def trim() -> None:
            while not done.wait(TRIM_SECONDS):
                for mapped in list(self._maps):
                    mapped.madvise(mmap.MADV_DONTNEED)

        thread = threading.Thread(target=trim, name="headwater-trim", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def close(self) -> None:
        """Forgets the files; tables that were read of them stay."""
        self._maps = []
