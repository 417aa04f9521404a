"""An archive in S3, over HTTP: moved there, read from there, and what happens when it is down, slow or wrong."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import ArchiveUnavailable, Corrupt, UsageError
from headwater.log.embedded import archiving, files, sealed
from headwater.log.embedded.archives import MARKER
from headwater.log.embedded.cache import FOLDER
from headwater.log.embedded.log import EmbeddedLog
from headwater.system.objects import s3
from headwater.testing.clock import ManualClock
from tests.archives.servers import Line, S3Server

pytestmark = pytest.mark.timeout(300)

SCHEMA = "id bigint, amount int"
GRACE = archiving.REMOVAL_GRACE + timedelta(seconds=1)


def fill(log: EmbeddedLog, *keys: int, topic: str = "orders") -> None:
    log.append(topic, [{"id": key, "amount": turn} for turn, key in enumerate(keys)])
    log.seal(topic)


def ids(log: EmbeddedLog, topic: str = "orders") -> list[object]:
    return [record.value["id"] for record in log.read(topic) if record.value is not None]


@pytest.fixture
def archived(log: EmbeddedLog, archive: str) -> EmbeddedLog:
    """A log with two segments in the archive only, and one here."""
    log.create("orders", SCHEMA, key="id", archive=archive, retention_bytes=1)
    fill(log, 1, 2, 3)
    fill(log, 4, 5)
    assert log.upkeep().archived_segments == 2
    log.append("orders", [{"id": 6}])
    return log


def forget_what_was_read(log: EmbeddedLog) -> None:
    for piece in (log.directory / FOLDER).glob("*"):
        piece.unlink()


def test_segments_move_and_are_read(archived: EmbeddedLog, server: S3Server, prefix: str, clock: ManualClock) -> None:
    names = [f"{prefix}/{segment.object}" for segment in archived.segments("orders") if segment.object]
    assert server.keys(prefix) >= {*names, f"{prefix}/{MARKER}"}
    assert list((archived.directory / "topics").glob("*/*/*.parquet")) == []
    assert ids(archived) == [1, 2, 3, 4, 5, 6]
    assert archived.locations("orders") == [f"s3://bucket/{name}" for name in names]
    with pytest.raises(UsageError, match="only in s3://bucket"):
        archived.files("orders")
    assert list(archived.check()) == []
    with hw.open(archived.url) as other:
        assert sorted(other.table("orders")["id"].to_pylist()) == [1, 2, 3, 4, 5, 6]
    archived.drop("orders")
    archived.upkeep()
    clock.advance(GRACE)
    assert archived.upkeep().removed_objects == 2
    assert not server.keys(prefix) & set(names)


def test_of_a_large_object_ranges_are_fetched(log: EmbeddedLog, archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RANGED_BYTES_MIN", 0)
    monkeypatch.setattr(sealed, "ROW_GROUP_ROWS", 10_000)
    log.create("orders", SCHEMA, archive=archive, retention_bytes=1)
    log.append("orders", pa.table({"id": range(100_000), "amount": pa.array([7] * 100_000, pa.int32())}))
    log.seal("orders")
    log.upkeep()
    [record] = log.read("orders", start=54_321, end=54_322)
    assert record.value == {"id": 54_321, "amount": 7}
    assert log.scan("orders")["id"].to_pylist() == list(range(100_000))


def test_neither_the_catalog_nor_messages_have_credentials(
    archived: EmbeddedLog, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.switch("closed")
    with pytest.raises(ArchiveUnavailable) as raised:
        list(archived.read("orders"))
    shown = f"{raised.value} {raised.value.hint} {archived.topic('orders').describe()}"
    content = b"".join(path.read_bytes() for path in archived.directory.glob("catalog.db*"))
    for secret in ("very-secret", "somebody"):
        assert secret not in shown
        assert secret.encode() not in content
    assert b"endpoint_override" in content


def test_an_archive_that_is_down_stops_nothing_else(archived: EmbeddedLog, line: Line) -> None:
    line.switch("closed")
    fill(archived, 7)
    with pytest.raises(ArchiveUnavailable) as raised:
        archived.upkeep()
    assert raised.value.location.startswith("s3://bucket/")
    assert "read and appended to" in raised.value.hint
    assert [record.offset for record in archived.read("orders", start=5)] == [5, 6]
    assert archived.segments("orders")[-1].local
    with pytest.raises(ArchiveUnavailable):
        ids(archived)
    line.switch("open")
    archived.upkeep()
    assert ids(archived) == [1, 2, 3, 4, 5, 6, 7]


def test_an_archive_that_never_answers_is_given_up(
    archived: EmbeddedLog, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "REQUEST_SECONDS_MAX", 1.0)
    line.switch("silent")
    begin = time.monotonic()
    with pytest.raises(ArchiveUnavailable, match="no answer within 1 s"):
        ids(archived)
    archived.append("orders", [{"id": 7}])
    assert [record.offset for record in archived.read("orders", start=5)] == [5, 6]
    assert time.monotonic() - begin < 20
    line.switch("open")
    assert ids(archived) == [1, 2, 3, 4, 5, 6, 7]


def test_upkeep_is_not_held_up_by_an_archive_that_never_answers(
    tmp_path: Path, archive: str, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "REQUEST_SECONDS_MAX", 8.0)
    monkeypatch.setattr(archiving, "CLOSE_SECONDS_MAX", 0.1)
    with EmbeddedLog(tmp_path / "log") as log:
        log.create("orders", SCHEMA, archive=archive)
        line.switch("silent")
        fill(log, 1)
        log._upkeep.nudge()
        deadline = time.monotonic() + 30
        while log._archiver._thread is None or not log._archiver._held()._threads.locked():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        fill(log, 2)
        assert [segment.state for segment in log.segments("orders")] == ["sealed", "sealed"]
        begin = time.monotonic()
    assert time.monotonic() - begin < 6
    line.switch("open")
    with EmbeddedLog(tmp_path / "log", upkeep=False) as log:
        log.upkeep()
        assert {segment.object is not None for segment in log.segments("orders")} == {True}


def test_a_connection_that_is_cut_during_an_upload_loses_nothing(
    log: EmbeddedLog, archive: str, line: Line, clock: ManualClock, server: S3Server, prefix: str
) -> None:
    log.create("orders", SCHEMA, archive=archive, retention_bytes=1, segment_bytes_max=64 << 20)
    rows = pa.table({"id": range(400_000), "amount": pa.array(range(400_000), pa.int32())})
    log.append("orders", rows)
    log.seal("orders")
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(0.05):
            line.switch("open")

    cutting = threading.Thread(target=cut)
    cutting.start()
    failures = 0
    for _ in range(3):
        try:
            log.upkeep()
        except ArchiveUnavailable:
            failures += 1
    stop.set()
    cutting.join()
    clock.advance(GRACE)
    log.upkeep()
    assert log.scan("orders")["id"].to_pylist() == list(range(400_000))
    named = {f"{prefix}/{segment.object}" for segment in log.segments("orders")}
    assert server.keys(prefix) == {*named, f"{prefix}/{MARKER}"}


def test_damage_and_loss_in_s3_are_told(archived: EmbeddedLog, server: S3Server, prefix: str) -> None:
    first, *_ = archived.segments("orders")
    key = f"{prefix}/{first.object}"
    content = bytearray(server.get(key))
    content[20] ^= 1
    server.put(key, bytes(content))
    with pytest.raises(Corrupt):
        ids(archived)
    [finding] = archived.check()
    assert (finding.first, finding.last) == (0, 2)
    content[20] ^= 1
    server.put(key, bytes(content))
    assert ids(archived) == [1, 2, 3, 4, 5, 6]


def test_a_wrong_bucket_is_told_when_the_topic_is_made(log: EmbeddedLog, line: Line) -> None:
    with pytest.raises(ArchiveUnavailable) as raised:
        log.create("orders", SCHEMA, archive=f"s3://nowhere/x?endpoint_override={line.url}")
    assert "bucket" in raised.value.reason
    assert raised.value.hint == "Create the bucket, or correct its name in the topic's archive."
    assert log.topics() == []


def test_a_wrong_endpoint_is_told_when_the_topic_is_altered(log: EmbeddedLog, line: Line) -> None:
    log.create("orders", SCHEMA)
    line.close()
    with pytest.raises(ArchiveUnavailable) as raised:
        log.alter("orders", archive=f"s3://bucket/x?endpoint_override={line.url}")
    assert "endpoint" in raised.value.hint
    assert log.topic("orders").settings.archive is None


@pytest.mark.parametrize("missing", [False, True])
def test_wrong_and_missing_credentials_are_told(
    log: EmbeddedLog, archive: str, server: S3Server, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    if missing:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    server.ask_for_credentials(required=True)
    try:
        with pytest.raises(ArchiveUnavailable) as raised:
            log.create("orders", SCHEMA, archive=archive)
    finally:
        server.ask_for_credentials(required=False)
    assert "AWS_ACCESS_KEY_ID" in raised.value.hint
    assert "very-secret" not in str(raised.value)


def test_the_endpoint_comes_from_the_environment_as_well(
    log: EmbeddedLog, line: Line, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", line.url)
    log.create("orders", SCHEMA, archive=f"s3://bucket/{prefix}", retention_bytes=1)
    fill(log, 1)
    log.upkeep()
    assert ids(log) == [1]


def test_an_archive_that_moves_to_another_endpoint_is_found_there(
    archived: EmbeddedLog, server: S3Server, line: Line, prefix: str
) -> None:
    line.switch("closed")
    archived.alter("orders", archive=f"s3://bucket/{prefix}?endpoint_override={server.url}")
    assert ids(archived) == [1, 2, 3, 4, 5, 6]
