"""A log that may not be written can be read, and files that may not be read are no damage."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.errors import FileUnreadable, ReadOnly
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.maintenance import UpkeepReport

NOBODY = 65534


@pytest.fixture
def directory() -> Iterator[Path]:
    """A log, in a folder that everybody may look into."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        directory = Path(folder) / "log"
        with EmbeddedLog(directory, upkeep=False) as log:
            log.create("orders", "id bigint")
            log.append("orders", [{"id": 1}, {"id": 2}])
            log.seal("orders")
            log.append("orders", [{"id": 3}])
        yield directory


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Nothing below the directory may be written by this process, which is not root for so long."""
    paths = [directory, *directory.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


def ids(log: EmbeddedLog) -> list[object]:
    return [record.value["id"] for record in log.read("orders") if record.value is not None]


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_it_can_be_read_and_checked(directory: Path) -> None:
    before = names(directory)
    with read_only(directory), EmbeddedLog(directory) as log:
        assert ids(log) == [1, 2, 3]
        assert list(log.check()) == []
        assert log.topics()[0].name == "orders"
    assert names(directory) == before


def test_writing_is_refused_in_words(directory: Path) -> None:
    with read_only(directory), EmbeddedLog(directory) as log:
        with pytest.raises(ReadOnly) as raised:
            log.append("orders", [{"id": 4}])
        assert str(directory) in str(raised.value)
        with pytest.raises(ReadOnly):
            log.create("other", "id bigint")
        with pytest.raises(ReadOnly):
            log.upkeep()
    with EmbeddedLog(directory) as log:
        log.append("orders", [{"id": 4}])
        assert ids(log) == [1, 2, 3, 4]


def test_commits_in_the_write_ahead_log_are_read(directory: Path) -> None:
    with EmbeddedLog(directory, upkeep=False) as writer:
        writer.append("orders", [{"id": 4}])
        assert (directory / "catalog.db-wal").exists()
        with read_only(directory), EmbeddedLog(directory) as log:
            assert ids(log) == [1, 2, 3, 4]
        copy = {name: (directory / name).read_bytes() for name in ("catalog.db", "catalog.db-wal")}
    for name, content in copy.items():
        (directory / name).write_bytes(content)
    (directory / "catalog.db-shm").unlink(missing_ok=True)
    with read_only(directory), EmbeddedLog(directory) as log:
        assert ids(log) == [1, 2, 3, 4]


def test_a_file_that_may_not_be_read_is_not_given_up(directory: Path) -> None:
    with EmbeddedLog(directory, upkeep=False) as log, read_only(directory):
        (sealed,) = log.files("orders")
        os.seteuid(os.getuid())
        sealed.chmod(0)
        if os.getuid() == 0:
            os.seteuid(NOBODY)
        for look in (lambda: list(log.check()), log.repair):
            with pytest.raises(FileUnreadable) as raised:
                look()
            assert sealed.name in str(raised.value)
            assert "Nothing was changed" in raised.value.hint
    with EmbeddedLog(directory, upkeep=False) as log:
        assert list(log.check()) == []
        assert log.upkeep() == UpkeepReport()
        assert ids(log) == [1, 2, 3]
