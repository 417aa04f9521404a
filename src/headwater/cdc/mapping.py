"""Arrow files that are mapped, and not read: their rows lie in the page cache, and pages that were looked at can go."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

# How long pages stay that were looked at.
TRIM_SECONDS = 0.02
_LIBC = ctypes.CDLL(None)


class MappedFiles:
    """Files of one commit, however large and however many they are: a file that is mapped is not open."""

    def __init__(self) -> None:
        self._maps: dict[Path, tuple[pa.Buffer, pa.Table]] = {}

    def read(self, path: Path) -> pa.Table:
        """The rows of a file that does not change any more, in the file."""
        if path not in self._maps:
            # Python's own maps keep their files open, and a process has not many.
            with pa.memory_map(str(path)) as file:
                content = file.read_buffer()
            self._maps[path] = content, pa.ipc.open_file(pa.BufferReader(content)).read_all()
        return self._maps[path][1]

    @contextmanager
    def trimmed(self) -> Iterator[None]:
        """While the block runs, pages that were looked at do not stay with the process: a commit looks at all of them.

        They come back from the page cache if they are looked at again.
        """
        done = threading.Event()

        def trim() -> None:
            while not done.wait(TRIM_SECONDS):
                for content, _ in list(self._maps.values()):
                    _LIBC.madvise(
                        ctypes.c_void_p(content.address),
                        ctypes.c_size_t(content.size),
                        ctypes.c_int(mmap.MADV_DONTNEED),
                    )

        thread = threading.Thread(target=trim, name="headwater-trim", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def close(self) -> None:
        """Forgets the files; tables that were read of them stay."""
        self._maps = {}
