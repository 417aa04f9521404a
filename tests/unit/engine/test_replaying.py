"""Replays from bases: what they find, what they leave behind, and that nothing that overtakes one gives a verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.engine.batch import Batch, StageNote
from headwater.engine.definition import Definition
from headwater.engine.merging import merge
from headwater.engine.opening import open_blobs
from headwater.engine.publication import Base
from headwater.engine.reading import content_rows, view_zset
from headwater.engine.replaying import Replay, Replayed
from headwater.engine.runs import RunWriter
from headwater.errors import InternalError
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock
from tests.unit.engine.samples import COLUMNS, SCHEMA, Driver, definition, zset

DAY = timedelta(days=1)
VIEW = "view/v"


class Program:
    """A view that has a row for each record of a topic, in the place of a program that Spark runs."""

    time_sources, tasks, fingerprint = (), 1, "one"

    def __init__(self, log: EmbeddedLog) -> None:
        self._log, self.topics = log, ["t"]
        self.batches = 0
        self.before: Callable[[], object] = lambda: None
        """Happens before a batch is run."""

    @property
    def definition(self) -> Definition:
        return definition("v")

    def part(self, names: Collection[str]) -> Program:
        assert list(names) == [VIEW]
        return self

    def run(self, batch: Batch) -> list[StageNote]:
        self.before()
        self.batches += 1
        blobs = open_blobs(batch.blobs)
        writer = RunWriter(blobs, name=f"replayed-{batch.number}")
        writer.add(VIEW, zset(*(row for one in batch.ranges for row in self._rows(one.first, one.end, batch))))
        merged = merge(blobs, writer, batch.runs.get(VIEW, []))
        return [StageNote(1, 0, writer.close(), [], [merged])]

    def _rows(self, first: int, end: int, batch: Batch) -> list[tuple[int, int, str, int]]:
        excluded = {offset for _, _, offset, _ in batch.excluded}
        found = [
            row
            for one in self._log.batches("t", start=first, end=end, partition=0)
            for row in zip(one.records["_offset"].to_pylist(), one.records["id"].to_pylist(), strict=True)
        ]
        return [(number, number, "row", 1) for offset, number in found if offset not in excluded]


class Shop:
    """A pipeline of that view, with a base after each batch."""

    def __init__(self, directory: Path, log: EmbeddedLog) -> None:
        self.log, self.program = log, Program(log)
        self.driver = Driver(directory / "shop")

    def publish(self, *numbers: int, lost: int = 0) -> None:
        """Records in a segment of their own, and what the view shows of them, without the `lost` first ones."""
        self.log.append("t", [{"id": number} for number in numbers])
        self.log.seal("t")
        rows = [(number, number, "row", 1) for number in numbers[lost:]]
        self.driver.publish({"v": zset(*rows)}, int(str(self.log.position())))

    def take_base(self) -> Base:
        kept = [one.batch for one in self.driver.store.bases(self.driver.generation)]
        ends = {"t": {0: self.log.offsets("t")[0][1]}}
        return self.driver.store.take_base(self.driver.generation, self.driver.epoch, ends, kept)

    def compare(self) -> Replayed | None:
        store = self.driver.store
        replay = Replay(self.log, store, self.program, "v", self.log.position(), ())
        return replay.compare(self.driver.generation, self.content())

    def content(self) -> pa.Table:
        store = self.driver.store
        return content_rows(view_zset(store.blobs, store.runs(self.driver.generation)[VIEW], SCHEMA), "v").select(
            COLUMNS.names
        )

    def files(self) -> list[str]:
        return sorted(blob.name for blob in self.driver.store.blobs.list())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shop(tmp_path: Path, clock: ManualClock) -> Iterator[Shop]:
    with EmbeddedLog(tmp_path / "log", durability="os", upkeep=False, clock=clock) as log:
        log.create("t", "id bigint", retention_age=DAY, views="keep")
        made = Shop(tmp_path, log)
        yield made
        made.driver.close()


def test_what_came_after_the_oldest_base_is_replayed(shop: Shop) -> None:
    shop.publish(1, 2)
    first = shop.take_base()
    shop.publish(3)
    shop.take_base()
    shop.publish(4, 5)
    before = shop.files()
    found = shop.compare()
    assert found is not None
    assert (found.base, found.rows, found.differences) == (first, 5, [])
    assert (shop.program.batches, shop.files()) == (1, before)


def test_a_change_that_was_lost_is_found(shop: Shop) -> None:
    shop.publish(1, 2)
    shop.take_base()
    shop.publish(3, 4, 5, lost=1)
    found = shop.compare()
    assert found is not None
    assert [(one.row, one.surplus) for one in found.differences] == [({"key": 3, "text": "row"}, -1)]


def test_a_younger_base_takes_the_place_of_one_that_retention_overtook(shop: Shop, clock: ManualClock) -> None:
    shop.publish(1, 2)
    shop.take_base()
    shop.publish(3)
    clock.advance(DAY / 2)
    younger = shop.take_base()
    shop.publish(4)

    def retain() -> None:
        clock.advance(DAY * 0.6)
        shop.log.upkeep()
        shop.program.before = lambda: None

    shop.program.before = retain
    found = shop.compare()
    assert found is not None
    assert (found.base, found.differences) == (younger, [])


def test_a_base_that_goes_meanwhile_gives_no_verdict(shop: Shop) -> None:
    shop.publish(1, 2)
    base = shop.take_base()
    shop.publish(3)
    store, bases = shop.driver.store, shop.driver.store.bases
    drop = iter([True])

    def once(generation: int) -> list[Base]:
        found = bases(generation)
        if next(drop, False):
            store.take_base(shop.driver.generation, shop.driver.epoch, {"t": {0: 3}})
        return found

    store.bases = once  # type: ignore[method-assign]
    assert shop.compare() is None
    assert base not in bases(shop.driver.generation)


def test_without_a_base_or_without_its_records_there_is_none(shop: Shop, clock: ManualClock) -> None:
    shop.publish(1, 2)
    assert shop.compare() is None
    shop.take_base()
    shop.publish(3)
    clock.advance(DAY * 2)
    shop.log.upkeep()
    assert shop.compare() is None
    assert shop.program.batches == 0


def test_a_bug_is_not_hidden(shop: Shop) -> None:
    shop.publish(1, 2)
    shop.take_base()
    shop.publish(3)
    before = shop.files()

    def fail() -> None:
        raise InternalError("It is broken.")

    shop.program.before = fail
    with pytest.raises(InternalError, match="It is broken"):
        shop.compare()
    assert shop.files() == before
