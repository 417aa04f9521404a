"""Damage to committed data: told with segment and offsets wherever it is met, and repaired only on demand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.errors import Corrupt
from headwater.log.embedded.check import Checker
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of
from headwater.log.maintenance import Finding, Segment
from headwater.testing.clock import ManualClock

DAY = timedelta(days=1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """Two commits of two records in each of two topics."""
    with EmbeddedLog(tmp_path / "log", clock=ManualClock(), upkeep=False) as log:
        for topic in ("orders", "others"):
            log.create(topic, "id bigint, text string")
            for number in range(2):
                log.append(topic, [{"id": 2 * number + n, "text": "text" * 10} for n in range(2)])
        yield log


def segment_of(log: EmbeddedLog) -> tuple[Segment, Path]:
    [segment] = log.segments("orders")
    return segment, log.directory / segment.file


def flip(path: Path, byte: int) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << byte % 8
    path.write_bytes(content)


def findings(log: EmbeddedLog) -> list[Finding]:
    return list(log.check())


def ids(log: EmbeddedLog) -> list[int]:
    found: list[int] = log.scan("orders")["id"].to_pylist()
    return found


def test_a_sound_log_has_no_findings(log: EmbeddedLog) -> None:
    steps: list[tuple[int, int]] = []
    assert list(log.check(lambda done, total: steps.append((done, total)))) == []
    assert steps == [(0, 2), (1, 2), (2, 2)]
    log.seal("orders")
    assert findings(log) == []
    assert log.repair().losses == []


def test_every_flipped_bit_of_a_segment_is_found(log: EmbeddedLog) -> None:
    checker = Checker(log._files, log._catalog, log._registry)
    truth = log.scan("orders").drop_columns(["_partition"]).to_pylist()
    for sealed in (False, True):
        if sealed:
            log.seal("orders")
        segment, path = segment_of(log)
        whole = path.read_bytes()
        for byte in range(0, len(whole), 13):
            flip(path, byte)
            [finding, *_] = findings(log)
            saved = checker.salvage(log.topic("orders"), segment).records
            assert all(row in truth for table in saved for row in table.to_pylist())
            assert (finding.topic, finding.partition, finding.segment) == ("orders", 0, segment.file)
            with pytest.raises(Corrupt) as error:
                log.scan("orders")
            assert error.value.segment == segment.file
            assert 0 <= error.value.first <= error.value.last <= 3
            path.write_bytes(whole)
        assert ids(log) == [0, 1, 2, 3]


def test_damage_is_told_with_the_offsets_of_its_frame(log: EmbeddedLog) -> None:
    _, path = segment_of(log)
    flip(path, len(path.read_bytes()) - 20)
    [finding] = findings(log)
    assert (finding.first, finding.last, finding.records) == (2, 3, 2)
    reading = log.read("orders", end=2)
    assert log.scan("others").num_rows == 4
    with pytest.raises(Corrupt) as error:
        list(reading)
    assert (error.value.first, error.value.last) == (2, 3)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_truncated_file_is_found_and_nothing_is_written_behind_it(log: EmbeddedLog, sealed: bool) -> None:
    if sealed:
        log.seal("orders")
    segment, path = segment_of(log)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(Corrupt) as error:
        ids(log)
    assert error.value.segment == segment.file
    assert [finding.segment for finding in findings(log)] == [segment.file]
    if not sealed:
        with pytest.raises(Corrupt):
            log.append("orders", [{"id": 9}])
    log.append("others", [{"id": 9}])
    assert [finding.segment for finding in findings(log)] == [segment.file]


@pytest.mark.parametrize("sealed", [False, True])
def test_a_missing_file_is_found(log: EmbeddedLog, sealed: bool) -> None:
    if sealed:
        log.seal("orders")
    segment, path = segment_of(log)
    path.unlink()
    with pytest.raises(Corrupt) as error:
        ids(log)
    assert (error.value.segment, error.value.first, error.value.last) == (segment.file, 0, 3)
    [finding] = findings(log)
    assert (finding.first, finding.last) == (0, 3)


def test_upkeep_leaves_a_damaged_segment_and_goes_on_with_the_others(log: EmbeddedLog) -> None:
    segment, path = segment_of(log)
    flip(path, 100)
    log.seal("orders")
    log.seal("others")
    assert [(one.file, one.state) for one in log.segments("orders")] == [(segment.file, "closed")]
    assert [one.state for one in log.segments("others")] == ["sealed"]
    log.append("orders", [{"id": 4}])
    with pytest.raises(Corrupt):
        ids(log)
    assert [record.offset for record in log.read("orders", start=4)] == [4]


@pytest.mark.parametrize("sealed", [False, True])
def test_repair_shows_the_loss_and_does_nothing_until_it_is_applied(log: EmbeddedLog, sealed: bool) -> None:
    if sealed:
        log.seal("orders")
    segment, path = segment_of(log)
    flip(path, 70 if not sealed else 10)
    damaged = path.read_bytes()
    plan = log.repair()
    lost = [(finding.topic, finding.first, finding.last) for finding in plan.losses]
    assert lost == [("orders", 0, 1)] if not sealed else [("orders", 0, 3)]
    assert plan.saved == 4 - sum(last - first + 1 for _, first, last in lost)
    assert path.read_bytes() == damaged
    assert log.segments("orders") == [segment]
    assert log.losses() == []
    plan.apply()
    assert findings(log) == []
    assert [(loss.topic, loss.first, loss.last) for loss in log.losses()] == lost
    assert ids(log) == ([2, 3] if not sealed else [])
    assert [file.read_bytes() for file in (log.directory / "damaged").iterdir()] == [damaged]
    log.append("orders", [{"id": 4}])
    assert [(record.offset, commit_of(record.position)) for record in log.read("orders")][-1] == (4, 5)
    assert log.repair().losses == []


def test_repair_of_a_missing_file(log: EmbeddedLog) -> None:
    _, path = segment_of(log)
    path.unlink()
    plan = log.repair()
    assert [(loss.first, loss.last) for loss in plan.losses] == [(0, 3)]
    plan.apply()
    assert findings(log) == []
    assert ids(log) == []
    log.append("orders", [{"id": 4}])
    assert [record.offset for record in log.read("orders")] == [4]


def test_a_consumer_passes_over_what_a_repair_gave_up(log: EmbeddedLog) -> None:
    _, path = segment_of(log)
    flip(path, 70)
    with log.consumer("orders", group="billing") as consumer:
        with pytest.raises(Corrupt):
            consumer.poll(timedelta(0))
        log.repair().apply()
        batch = consumer.poll(timedelta(0))
        assert batch is not None
        assert batch.records["_offset"].to_pylist() == [2, 3]
