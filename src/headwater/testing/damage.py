"""Damage: bits flipped, files cut short, lengthened or gone, one at a time, and what a log must make of each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Literal, cast, get_args

from headwater.errors import Corrupt
from headwater.log.embedded import sealed
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.maintenance import Finding
from headwater.testing.clock import ManualClock
from headwater.testing.disk import seeded
from headwater.testing.expectation import require

Kind = Literal["flip", "truncate", "lengthen", "remove"]
Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""

SCHEMA = "id bigint, amount decimal(9,2), note string, at timestamp, tags array<string>"
TOPIC_NAMES = ("orders", "changes")
# Small enough that one sealed file has several, as large files do.
ROW_GROUP_ROWS = 6


@dataclass(frozen=True, slots=True, order=True)
class Damage:
    """One thing done to one file, which is named by its number. `at` is a byte; of it `bit` is flipped."""

    file: int
    kind: Kind
    at: int = 0
    bit: int = 0

    def apply(self, directory: Path) -> None:
        path = directory / segment_files(directory)[self.file]
        content = bytearray(path.read_bytes())
        if self.kind == "remove":
            path.unlink()
            return
        if self.kind == "flip":
            content[self.at] ^= 1 << self.bit
        elif self.kind == "truncate":
            del content[self.at :]
        else:
            content += seeded(self.at).randbytes(self.at)
        path.write_bytes(content)

    def __str__(self) -> str:
        return f"{self.kind}:{self.at}:{self.bit}:{self.file}"

    @classmethod
    def parse(cls, text: str) -> Damage:
        """The damage that `str` gave."""
        kind, at, bit, file = text.split(":")
        if kind not in get_args(Kind):
            raise ValueError(f"{kind!r} is not a kind of damage")
        return cls(int(file), cast(Kind, kind), int(at), int(bit))


@dataclass(slots=True)
class DamageFigures:
    """What a run came to. `lost` and `saved` count records of damaged segments, over all repairs."""

    damages: int = 0
    refused: int = 0
    harmless: int = 0
    lost: int = 0
    saved: int = 0
    broken: list[tuple[Damage, str]] = field(default_factory=list)


def build_log(directory: Path) -> None:
    """A small log that has everything a segment file may hold: frames being written, frames that are complete, sealed
    segments of several row groups, compacted ones, tombstones, headers, nulls, and two versions of a schema."""
    rows_at_once, sealed.ROW_GROUP_ROWS = sealed.ROW_GROUP_ROWS, ROW_GROUP_ROWS
    try:
        with EmbeddedLog(directory, upkeep=False, clock=ManualClock()) as log:
            log.create("orders", SCHEMA, partitions=2, cleanup="none", segment_bytes_max=4_000)
            log.create("changes", SCHEMA, key="id", cleanup="compact", segment_bytes_max=4_000)
            for n in range(3):
                with log.commit(headers={"round": str(n)}) as commit:
                    commit.append("orders", _rows(10 * n, 8), partition=0)
                    commit.append("changes", _rows(3 * n, 8))
            log.delete("changes", [{"id": 2}])
            log.seal("orders")
            log.seal("changes")
            log.compact("changes")
            log.alter("orders", schema=SCHEMA + ", paid boolean")
            for n in range(4):
                log.append("orders", [row | {"paid": True} for row in _rows(50 + 10 * n, 6)], partition=n % 2)
            log.append("changes", _rows(40, 5))
    finally:
        sealed.ROW_GROUP_ROWS = rows_at_once


def records_of(log: EmbeddedLog) -> dict[Place, object]:
    """Every record of the log, by its place."""
    found: dict[Place, object] = {}
    for topic in TOPIC_NAMES:
        for row in log.scan(topic).to_pylist():
            place = (topic, row["_partition"], row["_offset"])
            require(place not in found, f"{place} was read twice")
            found[place] = row
    return found


def segment_files(directory: Path) -> list[str]:
    """All segment files, frames and Parquet."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.glob("topics/*/*/*"))


def every_damage(directory: Path, seed: int, *, bits: int = 1) -> list[Damage]:
    """Each byte with this many of its bits flipped, shorter lengths, longer ones, and each file removed."""
    random = seeded(seed)
    damages: list[Damage] = []
    for number, file in enumerate(segment_files(directory)):
        size = (directory / file).stat().st_size
        for at in range(size):
            damages += [Damage(number, "flip", at, bit) for bit in sorted(random.sample(range(8), bits))]
        # A Parquet file without its end is worth nothing, however much of it there is.
        lengths = range(size) if file.endswith(".log") else {*random.sample(range(size), 50), *range(size - 20, size)}
        damages += [Damage(number, "truncate", at) for at in sorted(lengths)]
        damages += [Damage(number, "lengthen", by) for by in (1, 8, 1000)]
        damages.append(Damage(number, "remove"))
    return damages


def damage_everywhere(
    folder: Path,
    damages: Callable[[Path], Iterable[Damage]],
    *,
    progress: Callable[[DamageFigures], None] = lambda _: None,
) -> DamageFigures:
    """Does each damage to a copy of one and the same log, and holds the log to its word."""
    figures = DamageFigures()
    whole, copy = folder / "whole", folder / "copy"
    build_log(whole)
    with EmbeddedLog(whole, upkeep=False) as log:
        expected = records_of(log)
        ranges = {
            segment.file: (topic, segment.partition, segment.base_offset, segment.end_offset - 1)
            for topic in TOPIC_NAMES
            for segment in log.segments(topic)
        }
    files = segment_files(whole)
    for damage in damages(whole):
        shutil.copytree(whole, copy)
        damage.apply(copy)
        figures.damages += 1
        try:
            file = files[damage.file]
            _Trial(file, expected, ranges[file], figures).run(copy)
        except Exception as error:  # noqa: BLE001 (whatever comes up is a finding)
            figures.broken.append((damage, f"{type(error).__name__}: {error}"))
        shutil.rmtree(copy)
        progress(figures)
    return figures


@dataclass(frozen=True, slots=True)
class _Trial:
    """One damaged log: it must refuse what is damaged, and save what is not."""

    file: str
    expected: dict[Place, object]
    range: tuple[str, int, int, int]
    figures: DamageFigures

    def run(self, directory: Path) -> None:
        with EmbeddedLog(directory, upkeep=False) as log:
            refused = self._read(log)
            findings = list(log.check())
            require(bool(findings) or not refused, "reading failed, and check found nothing")
            self._check_findings(findings)
            if refused:
                self.figures.refused += 1
            else:
                self.figures.harmless += 1
                require(not findings, f"everything could be read, and check found {findings}")
            losses = self._plan(log, findings)
            remaining = self._repaired(log, losses)
            self._go_on(log, remaining)
        with EmbeddedLog(directory, upkeep=False) as log:
            require(not list(log.check()), "after opening it again, check finds something")

    def _read(self, log: EmbeddedLog) -> bool:
        """Reads every partition from several places on; whether one of them was refused. Wrong records never come."""
        refused = False
        for topic in TOPIC_NAMES:
            for start in self._starts(log, topic):
                try:
                    for batch in log.batches(topic, start=start):
                        for row in batch.records.to_pylist():
                            place = (topic, row["_partition"], row["_offset"])
                            require(row == self.expected.get(place), f"{place} was read as {row}")
                except Corrupt as damage:
                    self._check_error(damage)
                    refused = True
        return refused

    def _starts(self, log: EmbeddedLog, topic: str) -> Iterator[dict[int, int]]:
        """From the beginning, and from the middle of the damaged segment."""
        _, partition, first, last = self.range
        others = dict.fromkeys(range(log.topic(topic).partitions), 10**9)
        for number in others:
            yield others | {number: 0}
        if topic == self.range[0]:
            yield others | {partition: (first + last + 1) // 2}

    def _check_error(self, error: Corrupt) -> None:
        _, _, first, last = self.range
        require(error.segment == self.file, f"{error} names another segment")
        require(first <= error.first <= error.last <= last, f"{error}: the segment has {first} to {last}")

    def _check_findings(self, findings: Sequence[Finding]) -> None:
        topic, partition, first, last = self.range
        for found in findings:
            require((found.topic, found.partition, found.segment) == (topic, partition, self.file), str(found))
            require(first <= found.first and found.last <= last, str(found))

    def _plan(self, log: EmbeddedLog, findings: Sequence[Finding]) -> list[Finding]:
        """What a repair would lose; asking changes nothing."""
        before = _files(log.directory)
        plan = log.repair()
        require(plan.losses == findings, f"the plan is to lose {plan.losses}, check found {findings}")
        require(_files(log.directory) == before, "planning a repair changed files")
        self.figures.saved += plan.saved
        plan.apply()
        return list(findings)

    def _repaired(self, log: EmbeddedLog, losses: Sequence[Finding]) -> dict[Place, object]:
        """After the repair everything that was not listed as lost is there, and nothing else."""
        lost = {(loss.topic, loss.partition, offset) for loss in losses for offset in range(loss.first, loss.last + 1)}
        remaining = {place: row for place, row in self.expected.items() if place not in lost}
        self.figures.lost += len(self.expected) - len(remaining)
        found = records_of(log)
        missing = sorted(set(remaining) - set(found))
        require(not missing, f"{missing} were not listed as lost, and are gone")
        wrong = [place for place in found if found[place] != remaining.get(place)]
        require(not wrong, f"{wrong} are not what was appended")
        require(not list(log.check()), "after the repair, check finds something")
        require(not log.repair().losses, "after the repair, there is something to repair")
        recorded = [(loss.topic, loss.partition, loss.first, loss.last) for loss in log.losses()]
        wanted = [(loss.topic, loss.partition, loss.first, loss.last) for loss in losses]
        require(recorded == wanted, f"{recorded} are recorded as lost, not {wanted}")
        return remaining

    def _go_on(self, log: EmbeddedLog, remaining: dict[Place, object]) -> None:
        """Appends, seals and reads."""
        topic, partition, _, _ = self.range
        log.append(topic, _rows(900, 2), partition=partition)
        log.seal(topic)
        found = records_of(log)
        new = [place for place in found if place not in remaining]
        require(len(new) == 2, f"after appending two records, {new} are new")
        require(all(found[place] == row for place, row in remaining.items()), "sealing changed something")
        require(not list(log.check()), "after continuing, check finds something")


def _files(directory: Path) -> dict[str, bytes]:
    """Every file but SQLite's own, which reading may change."""
    return {
        str(path): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith("catalog.db")
    }


def _rows(first: int, count: int) -> list[dict[str, object]]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        {
            "id": n,
            "amount": Decimal(n) / 4,
            "note": None if n % 5 == 0 else f"note {n} " * (n % 4),
            "at": at + timedelta(minutes=n),
            "tags": ["a", f"t{n}"][: n % 3],
        }
        for n in range(first, first + count)
    ]
