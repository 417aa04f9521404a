"""A log in a process that may open few files: `python open_files.py partitions|upkeep FOLDER`."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import TooManyOpenFiles
from headwater.log.embedded import upkeep
from headwater.log.embedded.log import EmbeddedLog
from headwater.system.background import background_states

FILES_MAX = 1024
PARTITIONS = 1500
SECONDS_MAX = 60.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.01)


def take_all() -> list[int]:
    """Opens as many files as there may be."""
    taken: list[int] = []
    while True:
        try:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return taken


def many_partitions(directory: Path) -> None:
    """A topic with more partitions than files is appended to and read; without any file, the error says so."""
    with EmbeddedLog(directory, upkeep=False) as log:
        log.create("orders", "id bigint", partitions=PARTITIONS)
        for part in range(2):
            with log.commit() as commit:
                for number in range(PARTITIONS):
                    commit.append("orders", [{"id": part * PARTITIONS + number}], partition=number)
        found = [log.scan("orders")["id"].to_pylist()]
        assert sorted(found[0]) == list(range(2 * PARTITIONS))
        assert list(log.check()) == []
        log._tails.close()
        taken = take_all()
        with pytest.raises(TooManyOpenFiles) as failed:
            log.append("orders", [{"id": 1}])
        for fd in taken:
            os.close(fd)
        assert "ulimit -n" in failed.value.hint
        log.append("orders", [{"id": 1}])
        assert log.scan("orders").num_rows == 2 * PARTITIONS + 1


def upkeep_goes_on(directory: Path) -> None:
    """Upkeep that could not open a file seals as soon as it can, says meanwhile why not, and its thread is alive."""
    upkeep.EVERY_SECONDS = 0.05
    with EmbeddedLog(directory) as log:
        log.create("orders", "id bigint", segment_bytes_max=1)
        log.append("orders", [{"id": 0}])
        until(lambda: [segment.state for segment in log.segments("orders")] == ["active"])
        taken = take_all()

        def is_without_catalog() -> bool:
            # Connections that are open already would be enough for a round with nothing to do.
            log._catalog._idle.clear()
            taken.extend(take_all())
            return isinstance(log.upkeep_failure, TooManyOpenFiles)

        until(is_without_catalog)
        assert log.upkeep_failures > 0
        for fd in taken:
            os.close(fd)
        log.append("orders", [{"id": 1}])
        until(lambda: [segment.state for segment in log.segments("orders")] == ["sealed", "active"])
        until(lambda: log.upkeep_failure is None)
        assert "upkeep" in {state.name for state in background_states()}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    {"partitions": many_partitions, "upkeep": upkeep_goes_on}[sys.argv[1]](Path(sys.argv[2]) / "log")
