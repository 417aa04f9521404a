"""A process and those that it has started: which they are, what memory they hold, what processor time they took."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def below(process: int) -> list[int]:
    """A process and all below it."""
    found, new = [process], [process]
    while new:
        listed: list[int] = []
        for one in new:
            with suppress(OSError):
                for children in Path(f"/proc/{one}/task").glob("*/children"):
                    listed += [int(child) for child in children.read_text().split()]
        new = listed
        found += new
    return found


def is_java(process: int) -> bool:
    """Whether it is a Java virtual machine."""
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text() == "java\n"
    return False


def processor_seconds(process: int) -> float:
    """The processor time of a process and of all below it, with those that have ended."""
    ticks = 0
    for one in below(process):
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_of(process: int) -> int:
    """What a process holds, shared memory in shares; pages of mapped files can be taken away and are not counted."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) * 1024
    return 0
