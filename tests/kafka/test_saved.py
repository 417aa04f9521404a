"""A process that opens a log reads of its catalog only what came after the copy that another one has saved."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from headwater.errors import UsageError
from headwater.log.kafka import replica
from headwater.log.kafka.log import KafkaLog
from headwater.testing.kafka import KafkaCluster


@pytest.fixture
def url(kafka_cluster: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(replica, "SAVE_OFFSETS", 4)
    return kafka_cluster.url(uuid.uuid4().hex[:8])


def filled(url: str, *numbers: int) -> None:
    with KafkaLog(url, upkeep=False) as log:
        log.create("orders", "id bigint", exist_ok=True)
        for number in numbers:
            with log.commit() as commit:
                commit.append("orders", [{"id": number}])
                commit.bookmark("last", number)


def content(url: str) -> tuple[int, list[object], object]:
    """Where the catalog's topic was read from, and what is in the log."""
    with KafkaLog(url, create=False, upkeep=False) as log:
        found = [record.value["id"] for record in log.read("orders") if record.value]
        return log._catalog.replica.start, found, log.bookmark("last")


def test_the_next_process_begins_with_what_was_saved(url: str, tmp_path: Path) -> None:
    filled(url, *range(10))
    start, found, last = content(url)
    assert start > 0
    assert (found, last) == (list(range(10)), 9)
    filled(url, 10, 11)
    later, found, last = content(url)
    assert later >= start
    assert (found, last) == (list(range(12)), 11)
    assert len(list(tmp_path.rglob("*.db"))) == 1


def test_a_saved_copy_that_is_damaged_is_thrown_away(url: str, tmp_path: Path) -> None:
    filled(url, *range(10))
    for saved in tmp_path.rglob("*.db"):
        whole = bytearray(saved.read_bytes())
        whole[len(whole) // 2] ^= 1
        saved.write_bytes(whole)
    start, found, last = content(url)
    assert (start, found, last) == (0, list(range(10)), 9)


def test_a_log_that_takes_the_place_of_another_has_its_own(url: str, kafka_cluster: KafkaCluster) -> None:
    filled(url, *range(10))
    with KafkaLog(url, upkeep=False) as log:
        for topic in (log._address.topic("orders"), log._address.turns, log._address.catalog):
            log._cluster.delete(topic)
    filled(url, 70)
    assert content(url) == (0, [70], 70)


def test_a_log_of_another_version_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(replica, "_FORMAT", ("format", b"7"))
        filled(url, 1)
    with pytest.raises(UsageError, match="has format 7"):
        content(url)
