"""What keeps an embedded log small: segments that roll and are sealed, retention, compaction, and the sweep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.errors import CatalogUnusable, PositionGone, RecordsGone, UsageError
from headwater.log import cataloged
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.reader import PartitionReader
from headwater.log.reading import Batch
from headwater.log.topic import Topic
from headwater.testing.clock import ManualClock

SCHEMA = "id bigint, amount int"
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log", clock=clock, upkeep=False) as log:
        yield log


def states(log: EmbeddedLog, topic: str = "orders") -> list[tuple[int, int, str]]:
    return [(segment.base_offset, segment.end_offset, segment.state) for segment in log.segments(topic)]


def offsets(log: EmbeddedLog, topic: str = "orders") -> list[int]:
    return [record.offset for record in log.read(topic)]


def fill(log: EmbeddedLog, *keys: int, topic: str = "orders") -> hw.Position:
    """One segment that holds these keys, with their turn as the amount."""
    position = log.append(topic, [{"id": key, "amount": turn} for turn, key in enumerate(keys)])
    log.seal(topic)
    return position


# Segments


def test_segments_roll_by_bytes(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, segment_bytes_max=1)
    for number in range(3):
        log.append("orders", [{"id": number}, {"id": number}])
    assert states(log) == [(0, 2, "closed"), (2, 4, "closed"), (4, 6, "active")]
    assert log.upkeep().sealed == 2
    assert states(log) == [(0, 2, "sealed"), (2, 4, "sealed"), (4, 6, "active")]
    assert offsets(log) == list(range(6))


def test_segments_roll_by_age_when_somebody_appends(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", SCHEMA, segment_age_max=DAY)
    log.append("orders", [{"id": 1}])
    clock.advance(DAY - SECOND)
    log.append("orders", [{"id": 2}])
    assert states(log) == [(0, 2, "active")]
    clock.advance(SECOND)
    log.append("orders", [{"id": 3}])
    assert states(log) == [(0, 2, "closed"), (2, 3, "active")]


def test_segments_roll_by_age_also_when_nobody_does(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", SCHEMA, segment_age_max=DAY)
    log.append("orders", [{"id": 1}])
    clock.advance(DAY + SECOND)
    log.upkeep()
    log.upkeep()
    assert states(log) == [(0, 1, "sealed")]
    log.append("orders", [{"id": 2}])
    assert offsets(log) == [0, 1]


def test_a_sealed_segment_is_plain_parquet(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id", partitions=2)
    log.append("orders", [{"id": n, "amount": n, "_headers": {"n": str(n)}} for n in range(10)])
    log.delete("orders", [{"id": 3}])
    assert log.files("orders") == []
    before = list(log.read("orders"))
    log.seal("orders")
    log.seal("orders")
    assert list(log.read("orders")) == before
    files = log.files("orders")
    assert len(files) == 2
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert sorted(row["id"] for row in rows) == sorted([*range(10), 3])
    assert [row["amount"] for row in rows if row["_deleted"]] == [None]
    assert {path.suffix for path in log.directory.rglob("*") if path.parent.name in "01"} == {".parquet"}


def test_reading_goes_on_while_segments_are_sealed_and_compacted(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact")
    for number in range(6):
        log.append("orders", [{"id": number % 2, "amount": number}])
    reading = log.batches("orders")
    log.seal("orders")
    assert next(reading).records.num_rows == 6
    log.append("orders", [{"id": 7}])
    follower = log.read("orders", follow=True, idle_timeout=timedelta(0))
    assert next(follower).offset == 0
    log.seal("orders")
    assert log.compact("orders") == 4
    assert [record.offset for record in follower] == [1, 2, 3, 4, 5, 6]
    assert offsets(log) == [4, 5, 6]


def test_compaction_runs_while_others_append_and_read(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact", segment_bytes_max=2_000)
    written = threading.Event()

    def write() -> None:
        for number in range(300):
            log.append("orders", [{"id": number % 7, "amount": number}])
        written.set()

    def follow() -> list[int]:
        found: list[int] = []
        for record in log.read("orders", follow=True, idle_timeout=timedelta(seconds=20)):
            found.append(record.offset)
            if record.offset == 299:
                break
        return found

    def look() -> None:
        newest = -1
        while not written.is_set():
            amounts = log.table("orders")["amount"].to_pylist()
            assert len(amounts) == min(7, max(amounts, default=-1) + 1)
            assert max(amounts, default=-1) >= newest
            newest = max(amounts, default=-1)

    with ThreadPoolExecutor(3) as pool:
        writing, following, looking = pool.submit(write), pool.submit(follow), pool.submit(look)
        removed = 0
        while not written.is_set():
            removed += log.compact("orders")
        writing.result()
        looking.result()
        seen = following.result()
    assert seen == sorted(set(seen))
    assert removed > 0
    log.seal("orders")
    log.compact("orders")
    assert offsets(log) == list(range(293, 300))
    assert list(log.check()) == []


def test_a_reading_at_a_position_that_compaction_overtakes_is_told(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact")
    fill(log, 1)
    position = fill(log, 2)
    reading = log.read("orders", end=position)
    assert next(reading).key == 1
    fill(log, 2)
    assert log.compact("orders") == 1
    with pytest.raises(PositionGone):
        list(reading)


def test_a_table_that_compaction_overtakes_is_whole(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact")
    position = fill(log, 1, 2)
    read, overtaken = cataloged._newest, [1, 1]

    def read_late(reader: PartitionReader, topic: Topic, commit: int) -> pa.Table:
        if overtaken:
            fill(log, overtaken.pop())
            assert log.compact("orders") == 1
        return read(reader, topic, commit)

    monkeypatch.setattr(cataloged, "_newest", read_late)
    with pytest.raises(PositionGone):
        log.table("orders", at=position)
    assert sorted(log.table("orders")["id"].to_pylist()) == [1, 2]
    assert overtaken == []


@pytest.mark.parametrize("reading", [EmbeddedLog.scan, EmbeddedLog.table])
def test_what_is_read_over_an_alteration_is_one_table(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch, reading: Callable[[EmbeddedLog, str], pa.Table]
) -> None:
    log.create("orders", "id int, amount int", key="id", partitions=2)
    log.append("orders", [{"id": number, "amount": number} for number in range(20)])
    read, altered = PartitionReader.read, list[Topic]()

    def read_late(reader: PartitionReader, offset: int, **limits: int | None) -> Batch | None:
        batch = read(reader, offset, **limits)
        if not altered:
            altered.append(log.alter("orders", schema="note string, amount bigint, id bigint"))
            log.append("orders", [{"id": number, "amount": 2**40} for number in range(20)])
        return batch

    monkeypatch.setattr(PartitionReader, "read", read_late)
    found = reading(log, "orders")
    assert sorted(found["id"].to_pylist()) == sorted(found["amount"].to_pylist()) == list(range(20))
    assert found["amount"].type == pa.int64()


# Retention


def test_retention_by_age_deletes_whole_segments(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", SCHEMA, retention_age=DAY)
    first = fill(log, 1, 2)
    clock.advance(DAY / 2)
    fill(log, 3)
    log.append("orders", [{"id": 4}])
    clock.advance(DAY / 2)
    assert log.upkeep().deleted_segments == 0
    clock.advance(SECOND)
    report = log.upkeep()
    assert (report.deleted_segments, report.deleted_records) == (1, 2)
    assert offsets(log) == [2, 3]
    assert len(log.files("orders")) == 1
    with pytest.raises(RecordsGone):
        list(log.read("orders", start=0))
    with pytest.raises(PositionGone):
        log.read("orders", start=hw.START)
    assert [record.offset for record in log.read("orders", start=first)] == [2, 3]
    clock.advance(DAY)
    log.upkeep()
    assert offsets(log) == []
    log.append("orders", [{"id": 5}])
    assert offsets(log) == [4]


def test_retention_by_bytes_deletes_the_oldest_segments(log: EmbeddedLog) -> None:
    log.create("orders", "id bigint, text string")
    for number in range(10):
        log.append("orders", [{"id": number, "text": f"{number}" * 1000}])
        log.seal("orders")
    sizes = [segment.bytes for segment in log.segments("orders")]
    log.alter("orders", retention_bytes=sum(sizes[6:]))
    assert log.upkeep().deleted_segments == 6
    assert offsets(log) == [6, 7, 8, 9]
    log.alter("orders", retention_bytes=sum(sizes[6:]) - 1)
    assert log.upkeep().deleted_segments == 1
    assert log.upkeep().deleted_segments == 0
    assert offsets(log) == [7, 8, 9]


def test_a_segment_that_was_rewritten_is_as_old_as_its_records(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact", segment_bytes_max=1)
    fill(log, 1, 1)
    fill(log, 2)
    assert log.compact("orders") == 1
    sizes = [segment.bytes for segment in log.segments("orders")]
    assert len(sizes) == 2
    log.alter("orders", cleanup="delete", retention_bytes=sizes[1])
    assert log.upkeep().deleted_segments == 1
    assert offsets(log) == [2]


def test_compaction_goes_on_over_what_it_has_rewritten(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact", segment_bytes_max=1)
    fill(log, 1, 1, 1)
    fill(log, 1)
    assert log.compact("orders") == 3
    fill(log, 2)
    fill(log, 1)
    assert log.compact("orders") == 1
    assert offsets(log) == [4, 5]


def test_a_topic_with_a_cap_is_a_ring_buffer(log: EmbeddedLog) -> None:
    cap = 200_000
    log.create("orders", "id bigint, text string", partitions=2, retention_bytes=cap)
    for number in range(300):
        log.append("orders", [{"id": number, "text": str(number) * 500}], partition=number % 2)
        if number % 10 == 0:
            log.upkeep()
            assert sum(segment.bytes for segment in log.segments("orders")) <= cap * 1.2
    kept = [record.offset for record in log.read("orders") if record.partition == 0]
    assert kept == list(range(kept[0], 150))
    assert 0 < kept[0] < 149


def test_a_cap_on_the_whole_log_takes_the_oldest_first(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", SCHEMA)
    log.create("events", SCHEMA)
    log.create("kept", SCHEMA, cleanup="none")
    log.create("table", SCHEMA, key="id", cleanup="compact")
    for number in range(4):
        for topic in ("orders", "events", "kept", "table"):
            clock.advance(SECOND)
            fill(log, number, topic=topic)
    total = sum(segment.bytes for topic in log.topics() for segment in log.segments(topic.name))
    log.set_max_bytes(total)
    assert log.upkeep().deleted_segments == 0
    log.set_max_bytes(total - 1)
    assert log.upkeep().deleted_segments == 1
    assert (offsets(log, "orders"), offsets(log, "events")) == ([1, 2, 3], [0, 1, 2, 3])
    log.set_max_bytes(1)
    log.upkeep()
    assert (offsets(log, "orders"), offsets(log, "events")) == ([], [])
    assert (offsets(log, "kept"), offsets(log, "table")) == ([0, 1, 2, 3], [0, 1, 2, 3])
    log.set_max_bytes(None)
    fill(log, 5)
    log.upkeep()
    assert offsets(log) == [4]
    with pytest.raises(UsageError):
        log.set_max_bytes(0)


def test_records_that_are_being_written_to_are_kept_from_a_cap(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA)
    log.append("orders", [{"id": 1}])
    log.set_max_bytes(1)
    assert log.upkeep().deleted_segments == 0
    assert offsets(log) == [0]


# Compaction


def test_compaction_keeps_the_newest_record_of_each_key_where_it_is(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact")
    first = fill(log, 1, 2, 1)
    fill(log, 3, 2)
    last = fill(log, 4, 1)
    log.append("orders", [{"id": 3, "amount": 9}])
    now = log.table("orders").sort_by("id")
    assert log.compact("orders") == 3
    assert offsets(log) == [3, 4, 5, 6, 7]
    assert log.table("orders").sort_by("id") == now
    assert log.compact("orders") == 0
    with pytest.raises(PositionGone) as error:
        log.table("orders", at=first)
    assert error.value.earliest == str(last)
    with pytest.raises(PositionGone):
        log.read("orders", end=first)
    assert sorted(log.table("orders", at=last)["id"].to_pylist()) == [1, 2, 3, 4]
    assert [record.offset for record in log.read("orders", start=0, end=6)] == [3, 4, 5]
    assert [record.offset for record in log.read("orders", start=4)] == [4, 5, 6, 7]
    log.append("orders", [{"id": 8}])
    assert offsets(log)[-1] == 8


def test_a_reading_that_ends_in_a_gap_ends(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact")
    fill(log, 1, 2, 1, 1, 2)
    assert log.compact("orders") == 3
    assert list(log.read("orders", end=3, follow=True)) == []
    assert [record.offset for record in log.read("orders", end=4, follow=True)] == [3]


def test_tombstones_go_after_their_grace(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact", tombstone_grace=DAY)
    fill(log, 1, 2)
    log.delete("orders", [{"id": 1}])
    log.seal("orders")
    assert log.compact("orders") == 1
    assert offsets(log) == [1, 2]
    clock.advance(DAY)
    assert log.compact("orders") == 0
    clock.advance(SECOND)
    assert log.compact("orders") == 1
    assert offsets(log) == [1]
    assert log.table("orders")["id"].to_pylist() == [2]
    log.append("orders", [{"id": 1}])
    assert offsets(log) == [1, 3]


def test_a_key_may_vanish_altogether(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact", tombstone_grace=DAY)
    fill(log, 1)
    log.delete("orders", [{"id": 1}])
    log.seal("orders")
    clock.advance(2 * DAY)
    assert log.compact("orders") == 2
    assert offsets(log) == []
    assert log.table("orders").num_rows == 0
    with log.consumer("orders", group="billing") as consumer:
        assert consumer.poll(timedelta(0)) is None
    log.append("orders", [{"id": 2}])
    assert offsets(log) == [2]
    assert list(log.check()) == []


def test_upkeep_compacts_where_it_pays(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact")
    fill(log, *range(10), *range(10))
    assert log.upkeep().compacted_records == 10
    fill(log, 1)
    assert log.upkeep().compacted_records == 0
    fill(log, *range(10))
    assert log.upkeep().compacted_records == 11
    assert len(offsets(log)) == 10


def test_only_a_topic_that_says_so_is_compacted(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA, key="id")
    fill(log, 1, 1)
    with pytest.raises(UsageError):
        log.compact("orders")
    log.upkeep()
    assert offsets(log) == [0, 1]
    log.alter("orders", cleanup="compact")
    assert log.compact("orders") == 1


def test_compaction_over_an_evolved_schema(log: EmbeddedLog) -> None:
    log.create("orders", "id int, amount int", key="id", cleanup="compact")
    fill(log, 1, 2)
    log.alter("orders", schema="id bigint, amount bigint, note string")
    log.append("orders", [{"id": 1, "amount": 2**40, "note": "new"}])
    log.seal("orders")
    assert log.compact("orders") == 1
    assert log.table("orders").sort_by("id").to_pylist() == [
        {"id": 1, "amount": 2**40, "note": "new"},
        {"id": 2, "amount": 1, "note": None},
    ]


# The sweep and the background


def test_files_that_nothing_names_are_swept(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA)
    fill(log, 1)
    log.append("orders", [{"id": 2}])
    stray = log.files("orders")[0].with_name("00000000000000000000-left-behind.parquet")
    stray.write_bytes(b"half of a file")
    assert log.upkeep().swept_files == 1
    assert not stray.exists()
    assert log.upkeep().swept_files == 0
    assert offsets(log) == [0, 1]


def test_files_that_the_catalog_may_have_forgotten_are_left_alone(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA)
    log.create("dropped", SCHEMA)
    fill(log, 1)
    newer = log.files("orders")[0].with_name("00000000000000000007-of-a-newer-catalog.parquet")
    unheard_of = log.directory / "topics" / "unheard-of" / "0" / "00000000000000000000-1.parquet"
    of_dropped = log.directory / "topics" / "dropped" / "0" / "00000000000000000000-1.parquet"
    log.drop("dropped")
    for file in (newer, unheard_of, of_dropped):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"records")
    assert log.upkeep().swept_files == 1
    assert [file.exists() for file in (newer, unheard_of, of_dropped)] == [True, True, False]


def test_a_catalog_that_is_lost_is_damage_and_nothing_is_swept(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA)
    fill(log, 1)
    [file] = log.files("orders")
    log.close()
    for catalog in log.directory.glob("catalog.db*"):
        catalog.unlink()
    for _ in range(2):
        with pytest.raises(CatalogUnusable) as caught:
            EmbeddedLog(log.directory)
        assert caught.value.damaged
    assert file.exists()


def test_a_dropped_topic_leaves_no_files(log: EmbeddedLog) -> None:
    log.create("orders", SCHEMA)
    fill(log, 1)
    log.append("orders", [{"id": 2}])
    log.drop("orders")
    assert [path for path in (log.directory / "topics").rglob("*") if path.is_file()] == []


def test_segments_are_sealed_in_the_background(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log") as log:
        log.create("orders", SCHEMA, segment_bytes_max=1)
        for number in range(3):
            log.append("orders", [{"id": number}])
        until = time.monotonic() + 20
        while [state for _, _, state in states(log)] != ["sealed", "sealed", "active"]:
            assert time.monotonic() < until
            assert log.upkeep_failure is None
            time.sleep(0.001)
        assert offsets(log) == [0, 1, 2]


def test_a_clock_that_is_set_back_does_not_turn_time_back(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create("orders", SCHEMA)
    log.append("orders", [{"id": 1}])
    clock.set_back(DAY)
    log.append("orders", [{"id": 2}])
    first, second = log.read("orders")
    assert second.at == first.at
    assert [record.offset for record in log.read("orders", start=first.at)] == [0, 1]
