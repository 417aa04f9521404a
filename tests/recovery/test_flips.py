"""Flipped bits in the databases that say what is true; missing and shortened write-ahead logs.

`tools/torture_log.py --flips` flips every bit; here it is a seeded part of them, through all that a log and a store do.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.engine.opening import delete_state, open_store
from headwater.engine.reading import Reader
from headwater.errors import CatalogUnusable, StoreUnusable
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.flips import Target, build_targets, flip_bits, sample_bits


@pytest.fixture
def targets(memory_path: Path) -> dict[str, Target]:
    return {target.name: target for target in build_targets(memory_path)}


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def unread_bit(target: Target) -> int:
    """A bit in a page that neither opening nor reading looks at."""

    def is_unread(bit: int) -> bool:
        return bool(flip_bits([target], lambda _: [bit]).found)

    return next(bit for bit in reversed(range(7, target.bits, 8 * 4096)) if is_unread(bit))


def test_a_flip_is_refused_or_found(targets: dict[str, Target]) -> None:
    figures = flip_bits(list(targets.values()), sample_bits(seed=1, part=0.0005))
    assert figures.broken == []
    assert figures.flips > 600
    for name in ("catalog", "catalog's write-ahead log", "store", "store's write-ahead log"):
        assert figures.refused[name] > 50


@pytest.mark.parametrize("witness", ["catalog's witness", "store's witness"])
def test_a_flip_in_a_witness_is_found(targets: dict[str, Target], witness: str) -> None:
    figures = flip_bits([targets[witness]], lambda target: range(0, target.bits, 3))
    assert figures.broken == []
    assert figures.found == {witness: figures.flips}


@pytest.mark.parametrize("bit", range(160, 168))
def test_a_header_that_turns_verification_off_is_refused(targets: dict[str, Target], bit: int) -> None:
    assert flip_bits([targets["catalog"], targets["store"]], lambda _: [bit]).refused == {"catalog": 1, "store": 1}


def test_check_finds_a_flip_in_a_page_that_nothing_reads(targets: dict[str, Target]) -> None:
    target = targets["catalog"]
    flip(target.path, unread_bit(target))
    with EmbeddedLog(target.directory, upkeep=False) as log:
        (finding,) = log.check()
        assert finding.segment == "catalog.db"
        assert "checksum" in finding.reason
        assert log.repair().beyond == [finding], "no repair can mend the catalog"


@pytest.mark.parametrize("size", [0, 32, 5000, -1, None])
def test_a_catalog_without_its_last_commits_is_refused(targets: dict[str, Target], size: int | None) -> None:
    wal = targets["catalog's write-ahead log"].path
    content = wal.read_bytes()
    if size is None:
        wal.unlink()
    else:
        wal.write_bytes(content[:size])
    with pytest.raises(CatalogUnusable) as raised:
        EmbeddedLog(wal.parent, upkeep=False)
    assert raised.value.damaged
    assert "commits are missing" in str(raised.value)
    wal.write_bytes(content)
    with EmbeddedLog(wal.parent, upkeep=False) as log:
        assert log.bookmark("place") == {"at": 8}
        assert list(log.check()) == []


def test_an_empty_catalog_that_was_in_use_is_refused(targets: dict[str, Target]) -> None:
    target = targets["catalog"]
    shutil.rmtree(target.directory / "topics")
    for content in (b"", None):
        target.path.unlink()
        if content is not None:
            target.path.write_bytes(content)
        with pytest.raises(CatalogUnusable) as raised:
            EmbeddedLog(target.directory, upkeep=False)
        assert raised.value.damaged


def test_an_older_catalog_that_was_put_back_is_refused(targets: dict[str, Target]) -> None:
    target = targets["catalog"]
    older = target.path.read_bytes()
    with EmbeddedLog(target.directory, upkeep=False) as log:
        log.append("orders", [{"id": 40, "note": "new"}])
    target.path.write_bytes(older)
    with pytest.raises(CatalogUnusable):
        EmbeddedLog(target.directory, upkeep=False)


def append_many(log: EmbeddedLog) -> None:
    for number in range(50, 80):
        log.append("orders", [{"id": number, "note": "next"}])


def test_damage_of_the_log_in_use_stops_writing(targets: dict[str, Target], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.system.checkpoints.FRAMES_MAX", 20)
    with EmbeddedLog(targets["catalog"].directory, upkeep=False) as log:
        log.append("orders", [{"id": 40, "note": "new"}])
        wal = log.directory / "catalog.db-wal"
        with wal.open("r+b") as file:
            file.seek(1000)
            byte = file.read(1)[0]
            file.seek(1000)
            file.write(bytes([byte ^ 1]))
        assert [finding.segment for finding in log.check()] == ["catalog.db"]
        with pytest.raises(CatalogUnusable) as raised:
            append_many(log)
        assert raised.value.damaged


def test_a_damaged_store_is_refused_and_rebuilt(targets: dict[str, Target]) -> None:
    target = targets["store"]
    flip(target.path, unread_bit(target))
    with pytest.raises(StoreUnusable) as raised:
        open_store(target.directory)
    assert raised.value.damaged
    assert "rebuilds it from the log" in raised.value.hint
    delete_state(target.directory)
    with open_store(target.directory) as store:
        assert store.generations() == []


def test_a_store_without_its_last_commits_is_refused_by_readers(targets: dict[str, Target]) -> None:
    wal = targets["store's write-ahead log"].path
    wal.unlink()
    with pytest.raises(StoreUnusable) as raised:
        Reader(wal.parent).published(1)
    assert raised.value.damaged


def test_a_store_that_was_deleted_begins_again(targets: dict[str, Target]) -> None:
    target = targets["store"]
    target.path.unlink()
    with open_store(target.directory) as store:
        assert store.generations() == []
