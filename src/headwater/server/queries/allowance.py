"""What a worker's process may use, as the kernel enforces it: address space and processor time."""

from __future__ import annotations

import math
import os
import resource
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIRST_TO_GO = "1000"


def confine() -> None:
    """For a process that runs whatever it is sent: it leaves no core, and is the first to go if memory runs out."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Where there is no such file, nobody can choose.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)


def allow_memory(size: int | None) -> None:
    """Lets the process have this many bytes more than it has now; None means no limit."""
    _set_soft(resource.RLIMIT_AS, None if size is None else _memory()[0] + size)


def allow_cpu(seconds: int) -> None:
    """Lets the process use this many more seconds of processor time; then the kernel ends it with SIGXCPU."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _set_soft(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + seconds)


def private_bytes() -> int:
    """The memory that the process does not share with others, as it does mapped files."""
    _, resident, shared = _memory()
    return resident - shared


def _memory() -> tuple[int, int, int]:
    """Address space, memory, and how much of that is shared, in bytes."""
    size, resident, shared = Path("/proc/self/statm").read_text().split()[:3]
    return int(size) * _PAGE_BYTES, int(resident) * _PAGE_BYTES, int(shared) * _PAGE_BYTES


def _set_soft(kind: int, value: int | None) -> None:
    hard = resource.getrlimit(kind)[1]
    wanted = resource.RLIM_INFINITY if value is None else value
    if hard != resource.RLIM_INFINITY and (wanted == resource.RLIM_INFINITY or wanted > hard):
        wanted = hard
    resource.setrlimit(kind, (wanted, hard))
