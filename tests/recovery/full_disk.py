"""A log on a disk that is really full, in a process of its own: `python full_disk.py tmpfs|limit FOLDER`."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from headwater.errors import DiskFull
from headwater.log.embedded.log import EmbeddedLog

DISK_BYTES = 3 << 20
BALLAST_BYTES = 1 << 20
ROW_BYTES = 20_000
SEGMENT_BYTES = 100_000
APPENDS_MAX = 1000


class Disk(Protocol):
    """A place that fills up, and in which room can be made."""

    def make_room(self) -> None: ...


class SmallDisk:
    """A file system in memory, with a file on it that can be spared."""

    def __init__(self, folder: Path) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder], check=True)
        self._ballast = folder / "ballast"
        self._ballast.write_bytes(bytes(BALLAST_BYTES))

    def make_room(self) -> None:
        self._ballast.unlink()


class SmallFiles:
    """A limit on the size of every file that this process writes."""

    def __init__(self, _: Path) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES - BALLAST_BYTES, resource.RLIM_INFINITY))

    def make_room(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def full(kind: str, folder: Path) -> Iterator[Disk]:
    if kind == "limit":
        yield SmallFiles(folder)
        return
    disk = SmallDisk(folder)
    try:
        yield disk
    finally:
        subprocess.run(["umount", folder], check=True)


def append(log: EmbeddedLog, number: int, topic: str = "orders") -> None:
    log.append(topic, [{"id": number, "note": f"{number:05}" * (ROW_BYTES // 5)}])


def fill(log: EmbeddedLog) -> int:
    """Appends until it is refused; how many records fitted."""
    for number in range(APPENDS_MAX):
        try:
            append(log, number)
        except DiskFull:
            return number
    raise AssertionError("the disk does not fill up")


def check(log: EmbeddedLog, count: int) -> None:
    found = [(record.value["id"], record.value["note"]) for record in log.read("orders") if record.value is not None]
    assert found == [(number, f"{number:05}" * (ROW_BYTES // 5)) for number in range(count)]
    assert list(log.check()) == []


def live(disk: Disk, directory: Path) -> int:
    """Fills the disk, is refused, makes room, continues; how many records fitted."""
    with EmbeddedLog(directory, upkeep=False) as log:
        log.create("orders", "id bigint, note string")
        count = fill(log)
        for _ in range(3):
            with pytest.raises(DiskFull):
                append(log, count)
            check(log, count)
        disk.make_room()
        append(log, count)
        check(log, count + 1)
        log.seal("orders")
        append(log, count + 1)
        check(log, count + 2)
    with EmbeddedLog(directory, upkeep=False) as log:
        check(log, count + 2)
    return count


def retain(directory: Path) -> int:
    """Fills the disk, and lets retention alone make the room to continue; how many records fitted."""
    with EmbeddedLog(directory, upkeep=False) as log:
        log.create("orders", "id bigint, note string", segment_bytes_max=SEGMENT_BYTES)
        log.create("clicks", "id bigint, note string")
        append(log, 0, "clicks")
        log.upkeep()
        count = fill(log)
        assert {segment.state for segment in log.segments("orders")} == {"closed", "active"}
        log.alter("orders", retention_bytes=2 * SEGMENT_BYTES)
        report = log.upkeep()
        assert report.deleted_segments > 0
        for number in range(count, count + 3):
            append(log, number)
        found: list[int] = log.scan("orders")["id"].to_pylist()
        assert found == list(range(found[0], count + 3))
        assert list(log.check()) == []
    return count


if __name__ == "__main__":
    kind, folder = sys.argv[1], Path(sys.argv[2])
    with full(kind.removeprefix("retain-"), folder) as place:
        print(retain(folder / "log") if kind.startswith("retain-") else live(place, folder / "log"))
