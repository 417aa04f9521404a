"""The verdict on a torture: the log against the ledger, when nobody is writing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.ledger import Account, Ledger
from headwater.testing.victims import KEYS, LEASE

# More than this much of the same is not shown.
SHOWN_MAX = 5


@dataclass(slots=True)
class Verdict:
    """Everything that is wrong, and how much was looked at."""

    problems: list[str] = field(default_factory=list)
    records: int = 0
    open_seconds: float = 0.0
    happened: int = 0
    segments: dict[str, int] = field(default_factory=dict)

    def complain(self, what: str, found: Iterable[object]) -> None:
        """Adds a problem if anything was found."""
        some = list(found)
        if some:
            more = f" and {len(some) - SHOWN_MAX} more" if len(some) > SHOWN_MAX else ""
            self.problems.append(f"{what}: {', '.join(str(each) for each in some[:SHOWN_MAX])}{more}")


def judge(directory: Path, ledger: Ledger, *, final: bool) -> Verdict:
    """Compares everything. The final time, what is left to copy is copied first."""
    verdict = Verdict()
    began = time.perf_counter()
    with EmbeddedLog(directory, upkeep=False) as log:
        log.position()
        verdict.open_seconds = time.perf_counter() - began
        if final:
            _copy_the_rest(log)
        verdict.complain("check", log.check())
        plain = _plain(log, ledger, verdict)
        _copies(log, plain, verdict, final=final)
        _transfers(log, ledger, verdict)
        _numbered(log, ledger, verdict)
        _latest(log, ledger, verdict)
        _ring(log, ledger, verdict)
        log.upkeep()
        verdict.complain("check after upkeep", log.check())
        verdict.complain("left behind", _left_behind(log))
        segments = [segment for topic in log.topics() for segment in log.segments(topic.name)]
        states = Counter[str](segment.state for segment in segments)
        verdict.segments = dict(states)
    return verdict


def _left_behind(log: EmbeddedLog) -> Iterator[str]:
    """Files that nobody needs, and that upkeep should have removed. One with offsets still to come may be data."""
    segments = {topic.name: log.segments(topic.name) for topic in log.topics()}
    named = {segment.file for each in segments.values() for segment in each}
    for path in sorted(log.directory.glob("topics/*/*/*")):
        file, (topic, partition) = path.relative_to(log.directory).as_posix(), path.parts[-3:-1]
        ends = [segment.end_offset for segment in segments.get(topic, []) if segment.partition == int(partition)]
        if file not in named and (topic not in segments or int(path.name.partition("-")[0]) < max(ends, default=0)):
            yield file


def _rows(log: EmbeddedLog, topic: str, *columns: str) -> Iterator[tuple[Any, ...]]:
    table = log.scan(topic, columns=columns)
    return zip(*(table[column].to_pylist() for column in columns), strict=True)


Record = tuple[str, int, int]
"""Writer, number, index."""


def _plain(log: EmbeddedLog, ledger: Ledger, verdict: Verdict) -> dict[int, list[Record]]:
    """Appends: acknowledged ones are there once, whole, as the commit they were told; doubtful ones whole or not."""
    partitions: dict[int, list[Record]] = {}
    commits: dict[tuple[str, int], Counter[int]] = {}
    sizes: dict[tuple[str, int], int] = {}
    last: dict[tuple[int, str], int] = {}
    offsets: list[str] = []
    for partition, offset, commit, writer, n, i, rows in _rows(
        log, "plain", "_partition", "_offset", "_commit", "writer", "n", "i", "rows"
    ):
        records = partitions.setdefault(partition, [])
        if offset != len(records):
            offsets.append(f"offset {offset} of partition {partition} comes as number {len(records)}")
        records.append((writer, n, i))
        commits.setdefault((writer, n), Counter())[commit] += 1
        sizes[writer, n] = rows
        if n < last.get((partition, writer), 0):
            offsets.append(f"{writer}'s {n} comes after {last[partition, writer]}")
        last[partition, writer] = n
    verdict.complain("plain", offsets)
    verdict.complain("written twice", [r for r, count in Counter(chain(*partitions.values())).items() if count > 1])
    verdict.records += sum(len(records) for records in partitions.values())
    for name, account in {**ledger.of("appender"), **ledger.of("sender")}.items():
        found = {n: of for (writer, n), of in commits.items() if writer == name}
        _compare(name, account, set(found), verdict)
        verdict.complain(f"{name}: torn", [n for n, of in found.items() if list(of.values()) != [sizes[name, n]]])
        told = account.acknowledged
        verdict.complain(f"{name}: another commit", [n for n in found if n in told and list(found[n]) != [told[n]]])
    return partitions


def _compare(name: str, account: Account, found: set[int], verdict: Verdict) -> None:
    verdict.complain(f"{name}: lost", sorted(set(account.acknowledged) - found))
    verdict.complain(f"{name}: never tried", sorted(found - set(account.acknowledged) - account.doubtful))
    verdict.happened += len(account.doubtful & found)


def _copies(log: EmbeddedLog, plain: dict[int, list[Record]], verdict: Verdict, *, final: bool) -> None:
    """Every record of the source once, in its order, as far as the group has come."""
    copied: dict[int, list[tuple[int, Record]]] = {}
    for partition, source, writer, n, i in _rows(log, "copies", "_partition", "source", "writer", "n", "i"):
        copied.setdefault(partition, []).append((source, (writer, n, i)))
    offsets = {lag.partition: lag.offset for lag in log.lag() if lag.group == "copying"}
    for partition, records in plain.items():
        done = offsets.get(partition, 0)
        if copied.get(partition, []) != list(enumerate(records[:done])):
            verdict.problems.append(f"partition {partition} was not copied exactly once up to {done}")
        if final and done != len(records):
            verdict.problems.append(f"of partition {partition} {done} records of {len(records)} were copied")
    verdict.records += sum(len(records) for records in copied.values())


def _copy_the_rest(log: EmbeddedLog) -> None:
    with log.consumer("plain", group="copying", lease=LEASE) as consumer:
        while sum(lag.records for lag in log.lag("copying")):
            batch = consumer.poll(timedelta(seconds=1))
            if batch is not None:
                rows = batch.records.select(["writer", "n", "i", "rows"])
                with log.commit() as commit:
                    source = batch.records["_offset"]
                    commit.append("copies", rows.append_column("source", source), partition=batch.partition)
                    commit.offsets(consumer)


def _transfers(log: EmbeddedLog, ledger: Ledger, verdict: Verdict) -> None:
    """Both sides of every transfer, in one commit, and no number left out or used twice."""
    sides: dict[str, dict[tuple[str, int], list[tuple[int, int]]]] = {"debits": {}, "credits": {}}
    for topic, found in sides.items():
        for writer, n, amount, commit in _rows(log, topic, "writer", "n", "amount", "_commit"):
            found.setdefault((writer, n), []).append((amount, commit))
            verdict.records += 1
    debits, credit = sides["debits"], sides["credits"]
    verdict.complain("transfers with one side", sorted(set(debits) ^ set(credit)))
    both = sorted(set(debits) & set(credit))
    verdict.complain("sums", [t for t in both if sum(amount for amount, _ in debits[t] + credit[t])])
    verdict.complain("torn", [t for t in both if len({commit for _, commit in debits[t] + credit[t]}) > 1])
    verdict.complain("twice", [t for t in both if (len(debits[t]), len(credit[t])) != (1, 2)])
    for name, account in ledger.of("transfer").items():
        found_numbers = {n for writer, n in both if writer == name}
        _compare(name, account, found_numbers, verdict)
        verdict.complain(f"{name}: left out", set(range(1, len(found_numbers) + 1)) - found_numbers)
        bookmark = log.bookmark(name) or 0
        if bookmark != len(found_numbers):
            verdict.problems.append(f"{name}: the bookmark is {bookmark} after {len(found_numbers)} transfers")


def _numbered(log: EmbeddedLog, ledger: Ledger, verdict: Verdict) -> None:
    """Numbered commits: each number once, in order."""
    found: dict[str, list[int]] = {}
    for writer, n in _rows(log, "numbered", "writer", "n"):
        found.setdefault(writer, []).append(n)
    for name, account in ledger.of("producer").items():
        numbers = found.get(name, [])
        verdict.records += len(numbers)
        if numbers != list(range(1, len(numbers) + 1)):
            verdict.problems.append(f"{name}: the numbers are not 1, 2, 3 …: {Counter(numbers).most_common(3)}")
        _compare(name, account, set(numbers), verdict)


def _latest(log: EmbeddedLog, ledger: Ledger, verdict: Verdict) -> None:
    """The newest value of every key, whatever compaction removed."""
    table = {(row["writer"], row["slot"]): row["n"] for row in log.table("latest").to_pylist()}
    verdict.records += len(table)
    for name, account in ledger.of("updater").items():
        for slot in range(KEYS):
            told = max((n for n in account.acknowledged if n % KEYS == slot), default=0)
            found = table.get((name, slot), 0)
            if found != told and not (found > told and found in account.doubtful):
                verdict.problems.append(f"{name}: slot {slot} has {found}, and {told} was acknowledged")


def _ring(log: EmbeddedLog, ledger: Ledger, verdict: Verdict) -> None:
    """The newest records, without a gap."""
    for name, account in ledger.of("ringer").items():
        numbers = [n for (n,) in _rows(log, "ring", "n")]
        verdict.records += len(numbers)
        first = numbers[0] if numbers else account.tried + 1
        kept = Account(account.tried, {n: c for n, c in account.acknowledged.items() if n >= first}, account.doubtful)
        _compare(name, kept, set(numbers), verdict)
        if numbers != sorted(set(numbers)):
            verdict.problems.append(f"{name}: the numbers do not grow")
        if account.acknowledged and account.last > first + 2000:
            verdict.problems.append(f"{name}: retention does not delete")
