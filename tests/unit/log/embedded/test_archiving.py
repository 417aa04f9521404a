"""Archives: sealed segments move to another place, are read from there, and nothing is lost on the way."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.errors import ArchiveUnavailable, Corrupt, RecordsGone, UsageError
from headwater.log.embedded import archiving, files, sealed
from headwater.log.embedded.archives import MARKER
from headwater.log.embedded.cache import FOLDER
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.maintenance import Segment
from headwater.log.port import Log
from headwater.system.objects.directory import DirectoryStore
from headwater.testing.clock import ManualClock

SCHEMA = "id bigint, amount int"
DAY = timedelta(days=1)
GRACE = archiving.REMOVAL_GRACE + timedelta(seconds=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log", clock=clock, upkeep=False) as log:
        yield log


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "cold storage"


def fill(log: EmbeddedLog, *keys: int, topic: str = "orders") -> None:
    """One sealed segment that holds these keys, with their turn as the amount."""
    log.append(topic, [{"id": key, "amount": turn} for turn, key in enumerate(keys)])
    log.seal(topic)


def ids(log: EmbeddedLog, topic: str = "orders") -> list[object]:
    return [record.value["id"] for record in log.read(topic) if record.value is not None]


def objects(archive: Path) -> list[Path]:
    return sorted(path for path in archive.rglob("*.parquet"))


def local_files(log: EmbeddedLog) -> list[Path]:
    return sorted((log.directory / "topics").glob("*/*/*.parquet"))


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def path_of(archive: Path, segment: Segment) -> Path:
    assert segment.object is not None
    return archive / segment.object


def archived(log: EmbeddedLog, archive: Path, *, local: bool = False, topic: str = "orders") -> list[Segment]:
    """The segments of a topic with two, which are in the archive, and here or not."""
    log.create(topic, SCHEMA, key="id", archive=archive, retention_bytes=None if local else 1)
    fill(log, 1, 2, 3, topic=topic)
    fill(log, 4, 5, topic=topic)
    log.upkeep()
    return log.segments(topic)


# Moving


def test_what_is_sealed_is_archived_and_stays_here_as_long_as_retention_says(
    log: EmbeddedLog, archive: Path, clock: ManualClock
) -> None:
    log.create("orders", SCHEMA, key="id", archive=archive, retention_age=DAY)
    fill(log, 1, 2)
    report = log.upkeep()
    assert (report.archived_segments, report.evicted_segments, report.deleted_segments) == (1, 0, 0)
    [segment] = log.segments("orders")
    assert segment.local
    assert segment.archive == archive.as_uri()
    assert path_of(archive, segment).read_bytes() == (log.directory / segment.file).read_bytes()
    clock.advance(DAY + timedelta(seconds=1))
    report = log.upkeep()
    assert (report.archived_segments, report.evicted_segments, report.deleted_segments) == (0, 1, 0)
    assert local_files(log) == []
    assert ids(log) == [1, 2]
    assert log.offsets("orders") == {0: (0, 2)}


def test_retention_by_bytes_says_what_stays_here(log: EmbeddedLog, archive: Path) -> None:
    log.create("orders", SCHEMA, key="id", archive=archive)
    for number in range(5):
        fill(log, number)
    size = max(segment.bytes for segment in log.segments("orders"))
    log.alter("orders", retention_bytes=2 * size)
    log.upkeep()
    assert [bool(segment.local) for segment in log.segments("orders")] == [False, False, False, True, True]
    assert ids(log) == [0, 1, 2, 3, 4]


def test_the_cap_of_the_log_evicts_before_it_deletes(log: EmbeddedLog, archive: Path) -> None:
    log.create("orders", SCHEMA, archive=archive)
    log.create("events", SCHEMA)
    fill(log, 1, topic="events")
    fill(log, 1)
    fill(log, 2)
    log.set_max_bytes(log.segments("events")[0].bytes + 1)
    report = log.upkeep()
    assert report.archived_segments == 2
    assert ids(log) == [1, 2]
    assert ids(log, "events") == []
    assert [bool(segment.local) for segment in log.segments("orders")] == [False, False]


def test_everything_that_reads_covers_what_is_archived(log: EmbeddedLog, archive: Path, clock: ManualClock) -> None:
    log.create("orders", SCHEMA, key="id", archive=archive, retention_bytes=1)
    fill(log, 1, 2)
    first = log.position()
    clock.advance(timedelta(hours=1))
    fill(log, 2, 3)
    log.append("orders", [{"id": 9, "amount": 9}])
    log.upkeep()
    assert local_files(log) == []
    assert [record.offset for record in log.read("orders", start=3)] == [3, 4]
    assert [record.offset for record in log.read("orders", start=first)] == [2, 3, 4]
    later = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
    assert [record.offset for record in log.read("orders", start=later)] == [2, 3, 4]
    assert log.scan("orders", columns=["id"])["id"].to_pylist() == [1, 2, 2, 3, 9]
    assert sorted(log.table("orders")["id"].to_pylist()) == [1, 2, 3, 9]
    assert log.table("orders", at=first)["id"].to_pylist() == [1, 2]
    assert log.sizes("orders")[0].records == 5
    assert [pq.read_table(file).num_rows for file in log.files("orders")] == [2, 2, 1]
    assert log.locations("orders") == [str(file) for file in log.files("orders")]
    assert list(log.check()) == []


def test_a_column_that_came_later_is_read_of_archived_segments(log: EmbeddedLog, archive: Path) -> None:
    archived(log, archive)
    log.alter("orders", schema=f"{SCHEMA}, note string")
    assert log.scan("orders")["note"].to_pylist() == [None] * 5


def test_another_handle_knows_where_segments_are(log: EmbeddedLog, archive: Path) -> None:
    archived(log, archive)
    with EmbeddedLog(log.directory, upkeep=False) as other:
        assert ids(other) == [1, 2, 3, 4, 5]


def test_a_background_thread_archives(tmp_path: Path, archive: Path) -> None:
    with EmbeddedLog(tmp_path / "log") as log:
        log.create("orders", SCHEMA, archive=archive)
        fill(log, 1)
        log._upkeep.nudge()
        for _ in range(500):
            if all(segment.object for segment in log.segments("orders")):
                break
            log._archiver._stopped.wait(0.02)
        assert log.segments("orders")[0].object is not None
        assert log.upkeep_failure is None


# Archives that do not work


def test_an_archive_that_is_gone_stops_nothing_else(log: EmbeddedLog, archive: Path, tmp_path: Path) -> None:
    archived(log, archive)
    archive.rename(tmp_path / "away")
    fill(log, 6)
    with pytest.raises(ArchiveUnavailable) as raised:
        log.upkeep()
    assert raised.value.location == archive.as_uri()
    assert raised.value.hint
    assert not archive.exists()
    assert [record.offset for record in log.read("orders", start=5)] == [5]
    assert [bool(segment.local) for segment in log.segments("orders")] == [False, False, True]
    with pytest.raises(ArchiveUnavailable):
        log.scan("orders")
    with pytest.raises(ArchiveUnavailable):
        list(log.check())
    with pytest.raises(ArchiveUnavailable):
        log.repair()
    (tmp_path / "away").rename(archive)
    log.upkeep()
    assert ids(log) == [1, 2, 3, 4, 5, 6]
    assert list(log.check()) == []


def test_an_empty_mount_point_is_not_taken_for_lost_records(log: EmbeddedLog, archive: Path, tmp_path: Path) -> None:
    archived(log, archive)
    archive.rename(tmp_path / "away")
    archive.mkdir()
    for read in (lambda: log.scan("orders"), log.repair, lambda: list(log.check())):
        with pytest.raises(ArchiveUnavailable, match=f"no object {MARKER!r}"):
            read()
    fill(log, 6)
    with pytest.raises(ArchiveUnavailable):
        log.upkeep()
    assert list(archive.iterdir()) == []


def test_the_background_tries_again_and_tells_why(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "RETRY_SECONDS", 0.01)
    with EmbeddedLog(tmp_path / "log") as log:
        log.create("orders", SCHEMA, archive=archive)
        archive.rename(tmp_path / "away")
        fill(log, 1)
        log._upkeep.nudge()
        for _ in range(500):
            if log.upkeep_failures >= 3:
                break
            log._archiver._stopped.wait(0.02)
        shown: Log = log
        assert isinstance(shown.upkeep_failure, ArchiveUnavailable)
        (tmp_path / "away").rename(archive)
        for _ in range(500):
            if log.upkeep_failure is None:
                break
            log._archiver._stopped.wait(0.02)
        assert log.segments("orders")[0].object is not None
        assert log.upkeep_failure is None


@pytest.mark.parametrize("content", [b"", b"other bytes", None])
def test_an_upload_that_does_not_read_back_is_not_believed(
    log: EmbeddedLog, archive: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    log.create("orders", SCHEMA, archive=archive, retention_bytes=1)
    fill(log, 1)
    put = DirectoryStore.put

    def lie(self: DirectoryStore, name: str, sent: bytes) -> None:
        put(self, name, content if content is not None else sent + b"!")

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryStore, "put", lie)
        with pytest.raises(ArchiveUnavailable, match="does not read back"):
            log.upkeep()
    [segment] = log.segments("orders")
    assert (segment.object, bool(segment.local)) == (None, True)
    log.upkeep()
    assert ids(log) == [1]
    assert len(objects(archive)) == 2


def test_what_an_upload_left_behind_is_removed_after_the_grace(
    log: EmbeddedLog, archive: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_an_upload_that_does_not_read_back_is_not_believed(log, archive, monkeypatch, b"torn")
    clock.advance(GRACE)
    assert log.upkeep().removed_objects == 1
    [segment] = log.segments("orders")
    assert objects(archive) == [path_of(archive, segment)]


def test_one_archive_that_fails_does_not_hold_up_another(log: EmbeddedLog, archive: Path, tmp_path: Path) -> None:
    log.create("a", SCHEMA, archive=tmp_path / "gone")
    log.create("b", SCHEMA, archive=archive)
    (tmp_path / "gone" / MARKER).unlink()
    for topic in ("a", "b"):
        fill(log, 1, topic=topic)
    with pytest.raises(ArchiveUnavailable):
        log.upkeep()
    assert log.segments("a")[0].object is None
    assert log.segments("b")[0].object is not None


def test_a_damaged_segment_is_not_archived(log: EmbeddedLog, archive: Path) -> None:
    log.create("orders", SCHEMA, archive=archive, retention_bytes=1)
    fill(log, 1)
    [file] = local_files(log)
    flip(file, 20)
    assert log.upkeep().archived_segments == 0
    assert file.exists()
    assert objects(archive) == []


# Settings


@pytest.mark.parametrize(
    "url",
    ["", 7, "gopher://host/x", "s3://", "s3://bucket?secret_key=x", "file://elsewhere/x", "s3://bucket/a#b"],
)
def test_an_archive_that_cannot_be_meant_is_refused(log: EmbeddedLog, url: object) -> None:
    with pytest.raises(UsageError) as raised:
        log.create("orders", SCHEMA, archive=url)  # type: ignore[arg-type]
    assert raised.value.hint
    assert log.topics() == []


def test_credentials_in_a_url_are_refused_and_not_shown(log: EmbeddedLog) -> None:
    with pytest.raises(UsageError) as raised:
        log.create("orders", SCHEMA, archive="s3://key:geheim@bucket/prefix")
    assert "geheim" not in raised.value.message + raised.value.hint


def test_a_directory_where_nothing_can_be_written_is_refused_at_once(log: EmbeddedLog) -> None:
    log.create("events", SCHEMA)
    makers: tuple[Callable[[], object], ...] = (
        lambda: log.create("orders", SCHEMA, archive="/proc/nowhere"),
        lambda: log.alter("events", archive="file:///proc/nowhere"),
    )
    for make in makers:
        with pytest.raises(ArchiveUnavailable, match="file:///proc/nowhere") as raised:
            make()
        assert "permissions" in raised.value.hint
    assert [(topic.name, topic.settings.archive) for topic in log.topics()] == [("events", None)]


def test_a_topic_that_exists_is_taken_though_its_archive_is_gone(log: EmbeddedLog, archive: Path) -> None:
    log.create("orders", SCHEMA, archive=archive)
    shutil.rmtree(archive)
    taken = log.create("orders", SCHEMA, archive=str(archive), exist_ok=True)
    assert taken.settings.archive == archive.as_uri()
    assert log.alter("orders", retention_age=DAY).settings.archive == archive.as_uri()


def test_a_topic_gets_an_archive_and_another_one_and_none(
    log: EmbeddedLog, archive: Path, tmp_path: Path, clock: ManualClock
) -> None:
    log.create("orders", SCHEMA)
    fill(log, 1)
    log.alter("orders", archive=archive, retention_bytes=1)
    log.upkeep()
    log.alter("orders", archive=tmp_path / "second")
    fill(log, 2)
    log.upkeep()
    assert [segment.archive for segment in log.segments("orders")] == [
        archive.as_uri(), (tmp_path / "second").as_uri(),
    ]  # fmt: skip
    assert local_files(log) == []
    log.alter("orders", archive=None, retention_bytes=None)
    assert ids(log) == [1, 2]
    log.alter("orders", retention_age=DAY)
    clock.advance(DAY + timedelta(seconds=1))
    assert log.upkeep().deleted_segments == 2
    with pytest.raises(RecordsGone):
        next(iter(log.read("orders", start=0)))
    clock.advance(GRACE)
    assert log.upkeep().removed_objects == 2
    assert objects(archive) + objects(tmp_path / "second") == []


@pytest.mark.parametrize("cleanup", ["compact", "none"])
def test_retention_limits_the_local_part_with_any_cleanup(log: EmbeddedLog, archive: Path, cleanup: str) -> None:
    with pytest.raises(UsageError, match="no effect"):
        log.create("orders", SCHEMA, key="id", cleanup=cleanup, retention_bytes=1)  # type: ignore[arg-type]
    log.create("orders", SCHEMA, key="id", cleanup=cleanup, retention_bytes=1, archive=archive)  # type: ignore[arg-type]
    fill(log, 1, 2)
    log.upkeep()
    assert local_files(log) == []
    assert ids(log) == [1, 2]


# Compaction, dropping, and what belongs to whom


def test_archived_segments_are_compacted_and_replaced(log: EmbeddedLog, archive: Path, clock: ManualClock) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact", archive=archive, retention_bytes=1)
    fill(log, 1, 2)
    fill(log, 2, 3)
    log.upkeep()
    old = objects(archive)
    fill(log, 3, 4)
    assert log.compact("orders") > 0
    log.upkeep()
    assert [(record.offset, record.value["id"]) for record in log.read("orders") if record.value] == [
        (0, 1), (2, 2), (4, 3), (5, 4),
    ]  # fmt: skip
    assert set(old) < set(objects(archive)), "readers have the old ones until the grace is over"
    clock.advance(GRACE)
    assert log.upkeep().removed_objects > 0
    assert objects(archive) == sorted(path_of(archive, segment) for segment in log.segments("orders"))
    assert ids(log) == [1, 2, 3, 4]


def test_compaction_waits_for_an_archive_that_is_gone(log: EmbeddedLog, archive: Path, tmp_path: Path) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact", archive=archive, retention_bytes=1)
    log.create("events", SCHEMA)
    fill(log, 1, 2)
    log.upkeep()
    archive.rename(tmp_path / "away")
    fill(log, 1, 2)
    fill(log, 1, topic="events")
    with pytest.raises(ArchiveUnavailable):
        log.upkeep()
    with pytest.raises(ArchiveUnavailable):
        log.compact("orders")
    (tmp_path / "away").rename(archive)
    log.compact("orders")
    assert [record.offset for record in log.read("orders")] == [2, 3]


def test_a_segment_is_archived_while_compaction_rewrites_it(
    log: EmbeddedLog, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact", archive=archive, retention_bytes=1)
    fill(log, 1, 1)
    write = log._sealer.write

    def archive_first(*arguments: object, **named: object) -> object:
        log._archiver.round()
        log._upkeep._evict()
        return write(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(log._sealer, "write", archive_first)
    assert log.compact("orders") == 1
    assert [record.offset for record in log.read("orders")] == [1]


def test_the_objects_of_a_dropped_topic_go(log: EmbeddedLog, archive: Path, clock: ManualClock) -> None:
    archived(log, archive)
    log.drop("orders")
    assert log.upkeep().removed_objects == 0
    clock.advance(GRACE)
    assert log.upkeep().removed_objects == 2
    assert objects(archive) == []


def test_a_copy_of_a_log_removes_nothing_that_the_original_needs(
    log: EmbeddedLog, archive: Path, clock: ManualClock, tmp_path: Path
) -> None:
    archived(log, archive)
    log.close()
    shutil.copytree(log.directory, tmp_path / "copy")
    with EmbeddedLog(tmp_path / "copy", clock=clock, upkeep=False) as copy:
        assert ids(copy) == [1, 2, 3, 4, 5]
        copy.drop("orders")
        copy.upkeep()
        clock.advance(GRACE)
        copy.upkeep()
    with EmbeddedLog(log.directory, clock=clock, upkeep=False) as original:
        assert ids(original) == [1, 2, 3, 4, 5]


def test_two_logs_share_an_archive(log: EmbeddedLog, archive: Path, clock: ManualClock, tmp_path: Path) -> None:
    archived(log, archive)
    with EmbeddedLog(tmp_path / "other", clock=clock, upkeep=False) as other:
        archived(other, archive)
        other.drop("orders")
        other.upkeep()
        clock.advance(GRACE)
        assert other.upkeep().removed_objects == 2
    assert ids(log) == [1, 2, 3, 4, 5]


# Damage


def test_damage_in_the_archive_is_found_and_the_local_file_archived_again(
    log: EmbeddedLog, archive: Path, clock: ManualClock
) -> None:
    first, _ = archived(log, archive, local=True)
    flip(path_of(archive, first), 30)
    [finding] = log.check()
    assert (finding.segment, finding.records) == (first.file, 0)
    assert "the archived copy" in finding.reason
    plan = log.repair()
    assert (list(plan.losses), plan.copies, plan.saved) == ([], [finding], 0)
    plan.apply()
    log.upkeep()
    assert list(log.check()) == []
    assert log.losses() == []
    clock.advance(GRACE)
    assert log.upkeep().removed_objects == 1


@pytest.mark.parametrize("gone", [True, False])
def test_a_damaged_local_file_is_brought_back_from_the_archive(log: EmbeddedLog, archive: Path, gone: bool) -> None:
    first, _ = archived(log, archive, local=True)
    if gone:
        (log.directory / first.file).unlink()
        assert ids(log) == [1, 2, 3, 4, 5]
    else:
        flip(log.directory / first.file, 30)
        with pytest.raises(Corrupt):
            log.scan("orders")
    [finding] = log.check()
    assert "the local copy" in finding.reason
    log.repair().apply()
    assert list(log.check()) == []
    assert ids(log) == [1, 2, 3, 4, 5]
    assert len(local_files(log)) == 2
    assert log.losses() == []


def test_what_no_copy_has_is_lost_and_told(log: EmbeddedLog, archive: Path) -> None:
    first, _ = archived(log, archive)
    flip(path_of(archive, first), 30)
    with pytest.raises(Corrupt, match="checksum"):
        log.scan("orders")
    [finding] = log.check()
    assert (finding.first, finding.last) == (0, 2)
    log.repair().apply()
    assert ids(log) == [4, 5]
    assert [(loss.first, loss.last) for loss in log.losses()] == [(0, 2)]


def test_an_object_that_somebody_removed_is_damage(log: EmbeddedLog, archive: Path) -> None:
    first, _ = archived(log, archive)
    path_of(archive, first).unlink()
    with pytest.raises(Corrupt, match="missing in the archive"):
        log.scan("orders")
    [finding] = log.check()
    assert "missing in the archive" in finding.reason


# Reading


def test_what_was_read_once_is_read_from_the_cache(log: EmbeddedLog, archive: Path, tmp_path: Path) -> None:
    archived(log, archive)
    assert ids(log) == [1, 2, 3, 4, 5]
    archive.rename(tmp_path / "away")
    assert ids(log) == [1, 2, 3, 4, 5]


def test_damage_in_the_cache_is_fetched_again(log: EmbeddedLog, archive: Path) -> None:
    archived(log, archive)
    assert ids(log) == [1, 2, 3, 4, 5]
    for piece in (log.directory / FOLDER).iterdir():
        flip(piece, 20)
    assert ids(log) == [1, 2, 3, 4, 5]
    for piece in (log.directory / FOLDER).iterdir():
        piece.write_bytes(b"short")
    assert ids(log) == [1, 2, 3, 4, 5]


def test_a_cache_that_cannot_be_written_is_done_without(log: EmbeddedLog, archive: Path) -> None:
    archived(log, archive)
    (log.directory / FOLDER).write_text("a file, where the folder would be")
    assert ids(log) == [1, 2, 3, 4, 5]


def test_of_a_large_object_only_what_is_read_is_fetched(
    log: EmbeddedLog, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RANGED_BYTES_MIN", 0)
    monkeypatch.setattr(sealed, "ROW_GROUP_ROWS", 1000)
    log.create("orders", SCHEMA, archive=archive, retention_bytes=1)
    log.append("orders", [{"id": n * 7919 % 100_003, "amount": n * 31 % 1009} for n in range(100_000)])
    log.seal("orders")
    log.upkeep()
    [segment] = log.segments("orders")
    fetched = list[int]()
    get = DirectoryStore.get

    def counting(self: DirectoryStore, name: str, begin: int, end: int) -> bytes:
        fetched.append(end - begin)
        return get(self, name, begin, end)

    monkeypatch.setattr(DirectoryStore, "get", counting)
    [record] = log.read("orders", start=54_321, end=54_322)
    assert record.offset == 54_321
    assert sum(fetched) < segment.bytes / 2
    assert log.scan("orders")["_offset"].to_pylist() == list(range(100_000))
    assert list(log.check()) == []
