"""A process that stops in the middle of a commit: others are told, read on, and write again when it is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import LogBusy
from headwater.log.embedded import catalog
from headwater.log.embedded.log import EmbeddedLog

WRITER = """
import os, signal, sys
from headwater.log.embedded.log import EmbeddedLog
from headwater.system.storage import Storage

class Stopping(Storage):
    def sync(self, fd, path):
        super().sync(fd, path)
        os.kill(os.getpid(), signal.SIGSTOP)

with EmbeddedLog(sys.argv[1], upkeep=False, storage=Stopping()) as log:
    log.append("orders", [{"id": 2}])
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedLog]:
    monkeypatch.setattr(catalog, "WRITE_LOCK_SECONDS_MAX", 0.3)
    with EmbeddedLog(tmp_path / "log", upkeep=False) as log:
        log.create("orders", "id bigint")
        log.append("orders", [{"id": 1}])
        yield log


@pytest.fixture
def stopped(log: EmbeddedLog) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the write lock and does nothing any more."""
    with subprocess.Popen([sys.executable, "-c", WRITER, log.directory]) as writer:
        _, status = os.waitpid(writer.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield writer
        writer.kill()


def ids(log: EmbeddedLog) -> list[object]:
    return [record.value["id"] for record in log.read("orders") if record.value is not None]


def test_who_waits_too_long_is_told(log: EmbeddedLog, stopped: subprocess.Popen[bytes]) -> None:
    began = time.monotonic()
    with pytest.raises(LogBusy) as raised:
        log.append("orders", [{"id": 3}])
    assert 0.2 < time.monotonic() - began < 10
    assert raised.value.path == str(log.directory)
    assert raised.value.seconds == 0.3


def test_readers_do_not_wait(log: EmbeddedLog, stopped: subprocess.Popen[bytes]) -> None:
    assert ids(log) == [1]
    with EmbeddedLog(log.directory, upkeep=False) as other:
        assert ids(other) == [1]


def test_when_it_goes_on_its_commit_happens(log: EmbeddedLog, stopped: subprocess.Popen[bytes]) -> None:
    stopped.send_signal(signal.SIGCONT)
    assert stopped.wait(timeout=60) == 0
    log.append("orders", [{"id": 3}])
    assert ids(log) == [1, 2, 3]


def test_when_it_is_killed_its_commit_does_not(log: EmbeddedLog, stopped: subprocess.Popen[bytes]) -> None:
    with pytest.raises(LogBusy):
        log.append("orders", [{"id": 3}])
    stopped.kill()
    stopped.wait(timeout=60)
    log.append("orders", [{"id": 4}])
    assert ids(log) == [1, 4]
    assert list(log.check()) == []
