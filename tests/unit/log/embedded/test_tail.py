"""The active segments: commits that share an fsync, segments that end in between, and files that are given back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.commit import Request
from headwater.log.embedded.log import EmbeddedLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, upkeep=False) as log:
        yield log


def request(log: EmbeddedLog, *numbers: int) -> Request:
    return Request(pieces=log._intake.prepare("orders", [{"id": number} for number in numbers]))


def ids(log: EmbeddedLog) -> list[int]:
    found: list[int] = log.scan("orders")["id"].to_pylist()
    return found


def open_segments(log: EmbeddedLog) -> list[str]:
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link.name for link in links if log.directory in link.parents and ".log" in link.name]


def test_a_segment_that_ends_between_two_commits_of_one_group_is_synced_and_kept(log: EmbeddedLog) -> None:
    log.create("orders", "id bigint", segment_bytes_max=1)
    requests = [request(log, 1), request(log, 2, 3), request(log, 4)]
    log._writer._commit_group(requests)
    outcomes = [each.settle() for each in requests]
    assert [each.offsets for each in outcomes] == [
        {("orders", 0): (0, 1)},
        {("orders", 0): (1, 3)},
        {("orders", 0): (3, 4)},
    ]
    assert len(log.segments("orders")) == 3
    assert ids(log) == [1, 2, 3, 4]


def test_a_group_that_fails_behind_an_ended_segment_leaves_nothing(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create("orders", "id bigint", segment_bytes_max=1)
    log.append("orders", [{"id": 1}])
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise OSError(5, "Input/output error")

        patch.setattr(log._tails, "_sync", fail)
        requests = [request(log, 2), request(log, 3)]
        log._writer._commit_group(requests)
        assert all(each.error is not None for each in requests)
    assert ids(log) == [1]
    log.append("orders", [{"id": 4}])
    assert ids(log) == [1, 4]
    assert list(log.check()) == []


def test_ended_segments_are_not_kept_open_whoever_ended_them(log: EmbeddedLog, tmp_path: Path) -> None:
    log.create("orders", "id bigint")
    with EmbeddedLog(tmp_path, upkeep=False) as other:
        for number in range(5):
            log.append("orders", [{"id": number}])
            other.seal("orders")
            other.append("orders", [{"id": number}])
            assert len([name for name in open_segments(log) if "(deleted)" in name]) <= 2
    log.append("orders", [{"id": 9}])
    assert len(open_segments(log)) == 1
