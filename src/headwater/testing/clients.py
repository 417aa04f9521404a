"""Clients of a log that do what applications do, at random, and record it: writers, readers and members of groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Literal

from headwater.errors import Determinate, Fenced, Indeterminate
from headwater.log.commit import Committed
from headwater.log.consumer import Consumer
from headwater.log.port import Log
from headwater.log.reading import Batch
from headwater.model.position import START
from headwater.model.record import Record
from headwater.testing.history import Action, Entry
from headwater.testing.recorder import Recorder

SCHEMA = "value string"
SOURCES: Mapping[str, int] = {"orders": 3, "payments": 2}
RESULTS: Mapping[str, int] = {"totals": 2}
TOPICS: Mapping[str, int] = {**SOURCES, **RESULTS}
PARTITIONS = tuple(f"{topic}/{partition}" for topic, count in TOPICS.items() for partition in range(count))
LEASE = timedelta(seconds=1)
PATIENCE = timedelta(milliseconds=200)
# So small that segments end, are sealed and are read in both forms all the time.
SEGMENT_BYTES_MAX = 8 << 10

Going = Callable[[], bool]
"""Whether a client should continue."""


class Abort(Exception):
    """What a client raises inside a commit, to have nothing happen."""


@dataclass(slots=True)
class Doing:
    """An operation under way: what it got, for its end to be recorded."""

    sent: Sequence[Entry] = ()
    read: Sequence[Entry] = ()
    outcome: Literal["ok", "fail", "info"] = "ok"
    facts: dict[str, bool] = field(default_factory=dict)


def create_topics(log: Log) -> None:
    """The topics that the clients use."""
    for topic, partitions in TOPICS.items():
        log.create(topic, SCHEMA, partitions=partitions, exist_ok=True, segment_bytes_max=SEGMENT_BYTES_MAX)


@contextmanager
def doing(
    recorder: Recorder,
    action: Action,
    *,
    sent: Sequence[Entry] = (),
    read: Sequence[Entry] = (),
    group: str | None = None,
) -> Iterator[Doing]:
    """Records an operation. Errors that say what became of it end it; any other ends the client."""
    recorder.invoke(action, sent=sent, read=read, group=group)
    doing = Doing(sent, read)
    try:
        yield doing
    except (Abort, Fenced, Determinate):
        doing.outcome = "fail"
    except Indeterminate:
        doing.outcome = "info"
    covers = PARTITIONS if doing.facts else ()
    recorder.end(
        action, doing.outcome, sent=doing.sent, read=doing.read, group=group, covers=covers, **doing.facts
    )  # fmt: skip


class Writer:
    """Appends to one partition, or commits to several topics at once, and sometimes changes its mind."""

    def __init__(self, log: Log, recorder: Recorder, dice: Random) -> None:
        self._log, self._recorder, self._dice = log, recorder, dice
        self._numbers = itertools.count()

    def run(self, going: Going) -> None:
        while going():
            if self._dice.random() < 0.4:
                self.append()
            else:
                self.commit(abort=self._dice.random() < 0.2)

    def append(self) -> None:
        """The short way; the log does not tell the offsets."""
        entries = self._entries(self._place())
        topic, partition = _split(entries[0].partition)
        with doing(self._recorder, "send", sent=entries):
            self._log.append(topic, _rows(entries), partition=partition)

    def commit(self, *, abort: bool = False) -> None:
        """Several appends at once, also several to one partition."""
        pieces = [self._entries(self._place()) for _ in range(self._dice.randint(1, 4))]
        with doing(self._recorder, "send", sent=list(itertools.chain(*pieces))) as sending:
            with self._log.commit() as commit:
                for entries in pieces:
                    append(commit.append, entries)
                give_up_if(abort)
            sending.sent = placed(sending.sent, commit.result)

    def _place(self) -> str:
        return self._dice.choice([name for name in PARTITIONS if _split(name)[0] in SOURCES])

    def _entries(self, partition: str) -> list[Entry]:
        count = self._dice.randint(1, 5)
        return [Entry(partition, f"{self._recorder.process}:{next(self._numbers)}") for _ in range(count)]


class Member:
    """Deals with what a group's partitions hold; with `results` it commits a value made of each, with the offsets."""

    def __init__(self, log: Log, recorder: Recorder, dice: Random, group: str, *, results: bool) -> None:
        self._log, self._recorder, self._dice = log, recorder, dice
        self._group, self._results = group, results
        self._numbers = itertools.count()

    def run(self, going: Going) -> None:
        """Joins and leaves, over and over."""
        while going():
            turns = self._dice.randint(5, 200)
            with self.join() as consumer:
                while going() and turns:
                    turns -= 1
                    self.work(consumer)

    def join(self) -> Consumer:
        return self._log.consumer(list(SOURCES if self._results else TOPICS), group=self._group, lease=LEASE)

    def work(self, consumer: Consumer) -> None:
        """A few polls and a commit of all of them, which may be given up on purpose."""
        delivered: list[Entry] = []
        for _ in range(self._dice.randint(1, 3)):
            delivered += self.poll(consumer)
        if delivered:
            self.settle(consumer, delivered, abort=self._dice.random() < 0.1)

    def poll(self, consumer: Consumer) -> list[Entry]:
        with doing(self._recorder, "poll", group=self._group) as polling:
            batch = consumer.poll(PATIENCE / 4)
            polling.read = entries_of(batch) if batch is not None else ()
        return list(polling.read)

    def settle(self, consumer: Consumer, delivered: Sequence[Entry], *, abort: bool = False) -> None:
        sent = self._made_of(delivered) if self._results else []
        with doing(self._recorder, "settle", sent=sent, read=delivered, group=self._group) as settling:
            if not sent and self._dice.random() < 0.5:
                consumer.commit()
                return
            try:
                with self._log.commit() as commit:
                    commit.offsets(consumer)
                    append(commit.append, sent)
                    give_up_if(abort)
            except Abort:
                consumer.rewind()
                raise
            settling.sent = placed(sent, commit.result)

    def _made_of(self, delivered: Sequence[Entry]) -> list[Entry]:
        results = [name for name in PARTITIONS if _split(name)[0] in RESULTS]
        partition = self._dice.choice(results)
        return [Entry(partition, f"{self._recorder.process}:{next(self._numbers)}") for _ in delivered]


class Reader:
    """Reads all topics for itself, in one of the ways there are; each reading is a process of its own."""

    def __init__(self, log: Log, folder: Path, process: str, dice: Random) -> None:
        self._log, self._folder, self._process, self._dice = log, folder, process, dice
        self._numbers = itertools.count()

    def run(self, going: Going) -> None:
        while going():
            self._dice.choice([self.by_position, self.by_record, self.by_batch])(going)

    def by_position(self, going: Going) -> None:
        """From position to position."""
        with self._recorder() as recorder:
            position = START
            for _ in range(self._dice.randint(2, 50)):
                if not going():
                    return
                with doing(recorder, "poll") as polling:
                    now = self._log.wait(position, PATIENCE)
                    polling.read = [entry_of(r) for r in self._log.read(list(TOPICS), start=position, end=now)]
                    polling.facts = {"whole": True, "at_end": True}
                position = now

    def by_record(self, going: Going) -> None:
        """Following, record by record, from the beginning or from now on."""
        start: Literal["earliest", "latest"] = self._dice.choice(["earliest", "latest"])
        records = self._log.read(list(TOPICS), start=start, follow=True, idle_timeout=PATIENCE)
        with self._recorder() as recorder:
            commits = itertools.groupby(records, key=lambda record: record.position)
            while going():
                with doing(recorder, "poll") as polling:
                    some = itertools.islice(commits, self._dice.randint(1, 20))
                    polling.read = [entry_of(record) for _, commit in some for record in commit]
                    polling.facts = {"whole": True}
                if not polling.read:
                    return

    def by_batch(self, going: Going) -> None:
        """Everything that there is now, in Arrow."""
        with self._recorder() as recorder, doing(recorder, "poll") as polling:
            polling.read = [entry for batch in self._log.batches(list(TOPICS)) for entry in entries_of(batch)]
            polling.facts = {"whole": True, "at_end": True}

    def _recorder(self) -> Recorder:
        return Recorder(self._folder, f"{self._process}-{next(self._numbers)}")


def give_up_if(unwilling: bool) -> None:  # noqa: FBT001 (reads as a sentence)
    if unwilling:
        raise Abort


def append(to: Callable[..., object], entries: Sequence[Entry]) -> None:
    """Adds values to a commit, partition by partition."""
    for partition, run in itertools.groupby(entries, key=lambda entry: entry.partition):
        topic, number = _split(partition)
        to(topic, _rows(run), partition=number)


def placed(entries: Sequence[Entry], committed: Committed) -> list[Entry]:
    """The values with the offsets that a commit of them alone has told."""
    offsets = {f"{topic}/{partition}": first for (topic, partition), (first, _) in committed.offsets.items()}
    found = []
    for entry in entries:
        found.append(Entry(entry.partition, entry.value, offsets[entry.partition]))
        offsets[entry.partition] += 1
    assert offsets == {f"{topic}/{partition}": end for (topic, partition), (_, end) in committed.offsets.items()}
    return found


def entry_of(record: Record) -> Entry:
    """What a reader saw in one record."""
    assert record.value is not None
    return Entry(f"{record.topic}/{record.partition}", str(record.value["value"]), record.offset)


def entries_of(batch: Batch) -> list[Entry]:
    """What a reader saw in a batch."""
    columns = (batch.records["value"].to_pylist(), batch.records["_offset"].to_pylist())
    return [Entry(f"{batch.topic}/{batch.partition}", value, offset) for value, offset in zip(*columns, strict=True)]


def _rows(entries: Iterator[Entry] | Sequence[Entry]) -> list[dict[str, object]]:
    return [{"value": entry.value} for entry in entries]


def _split(partition: str) -> tuple[str, int]:
    topic, _, number = partition.partition("/")
    return topic, int(number)
