"""What Spark's processes say on standard error, passed on without what is no news to anybody."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterable, Iterator

# What the virtual machine says of an option that Spark itself gives it, and that no setting silences.
_INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
_TRACEBACK = b"Traceback (most recent call last):\n"
# A worker that was idle for long, or whose task is over, finds that nobody listens any more.
_NOBODY_LISTENS = (b"BrokenPipeError:", b"ConnectionResetError:")
_WORKER = b"pyspark/daemon.py"


class RaisedAnyway(logging.Filter):
    """Leaves out what py4j logs with a stack trace and then raises: that Java does not answer."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.pathname.endswith("py4j/java_gateway.py")


class Told:
    """What comes out of a pipe: held back until it is passed on to standard error."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._held = pipe, b""
        self._passing = False
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="spark-stderr", daemon=True)
        self._thread.start()

    def all(self) -> str:
        """All of it in one line, when nobody writes any more."""
        self._thread.join(timeout=5)
        return " ".join(self._held.decode(errors="replace").split()).rstrip(".")

    def pass_on(self) -> None:
        """Passes on what was held back, and from now on what comes."""
        self._passing = True
        self._add(b"")

    def _read(self) -> None:
        with os.fdopen(self._pipe, "rb") as lines:
            for line in without_noise(lines):
                self._add(line)

    def _add(self, text: bytes) -> None:
        with self._turn:
            self._held += text
            if self._passing and self._held:
                held, self._held = self._held, b""
                sys.stderr.write(held.decode(errors="replace"))
                sys.stderr.flush()


def without_noise(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that somebody may want to know of. Tracebacks of several workers may be mixed."""
    held: list[bytes] = []
    begun = 0
    for line in lines:
        if line == _TRACEBACK:
            begun += 1
            held.append(line)
        elif begun and line.startswith((b" ", b"\n")):
            held.append(line)
        elif begun and line.startswith(_NOBODY_LISTENS) and any(_WORKER in one for one in held):
            begun -= 1
            held = [_TRACEBACK] * begun
        else:
            yield from held
            held, begun = [], 0
            if line != _INCUBATOR:
                yield line
    yield from held
