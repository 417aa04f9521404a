"""Histories of what the clients of a log did and saw, and the six anomalies that no history of a log may show.

The checks are those of Jepsen's workload for Kafka, for a log whose commits are atomic over all topics.

**The system.** A log has partitions. A partition is a sequence of offsets, and an offset holds one value for ever. A
commit puts values into any number of partitions, all of them or none. A reader reads partitions in the order of their
offsets. The members of a group share the partitions out among themselves; each value is for one of them to deal with.
Values are unique: no two sends have the same one.

**The operations.** A process does one operation after the other. It records an `invoke` before, and afterwards `ok` (it
happened), `fail` (it did not happen and never will) or `info` (nobody knows). An operation without an end, because its
process was killed, is an `info`.

    send    commits values: `sent`. An `ok` knows their offsets, where the log tells them.
    poll    reads values: `read`. A process that polls for itself reads on where its last poll ended; one that polls as
            a member of a `group` reads on where the group's commits and the division of its partitions say.
    settle  commits, for a `group`, that the values in `read` have been dealt with, together with what is `sent`.

A poll may say more of itself: after one with `whole`, the process has read all partitions that it reads, `covers`, up
to one and the same commit; after one with `at_end`, it has read them from their first offset to their end.
Every process that polls `whole` began where a commit ends. A history is in the order of one clock, and its last
operations are polls that read everything; so what was never read then was never committed.

**The anomalies.**

    1  lost write           An acknowledged value was not read, though somebody read behind it, or read its partition
                            to the end later on; or a group has settled values behind it, but not it.
    2  duplicate            A value is at two offsets, or was settled twice by a group.
    3  aborted read         A value was read or settled that was never sent, or whose commit failed.
    4  inconsistent offset  Two values were seen at one offset.
    5  broken order         A process that polls left a value out, went back or read a value again; or a value lies
                            before one that had been acknowledged when it was sent; or the values of one send lie in
                            another order.
    6  torn commit          A process that polls whole commits saw some values of a commit, and not all.

What is *not* promised: that a member which polls sees every value in turn (partitions come and go), that values of two
commits under way at the same time have a certain order, or that a poll of a part of the partitions sees whole commits.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Type = Literal["invoke", "ok", "fail", "info"]
Action = Literal["send", "poll", "settle"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in a partition, and its offset where that is known."""

    partition: str
    value: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One line of a history; the module's docstring says what the fields mean. `at` is in nanoseconds."""

    at: int
    process: str
    type: Type
    action: Action
    sent: tuple[Entry, ...] = ()
    read: tuple[Entry, ...] = ()
    group: str | None = None
    covers: tuple[str, ...] = ()
    whole: bool = False
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that a log must not show: which of the six, where, of what value, and what was seen."""

    number: int
    name: str
    partition: str
    value: str
    seen: str

    def __str__(self) -> str:
        return f"{self.number} {self.name}: {self.value} in {self.partition}: {self.seen}"


History = Sequence[Operation]
Check = Callable[[History], list[Anomaly]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """An operation from its begin to its end, if it has one."""

    invoked: Operation
    ended: Operation | None

    @property
    def type(self) -> Type:
        return self.ended.type if self.ended is not None else "info"

    @property
    def sent(self) -> tuple[Entry, ...]:
        return self.ended.sent if self.ended is not None and self.ended.type == "ok" else self.invoked.sent

    @property
    def read(self) -> tuple[Entry, ...]:
        return self.ended.read if self.ended is not None and self.ended.type == "ok" else self.invoked.read

    @property
    def process(self) -> str:
        return self.invoked.process


def attempts_of(history: History) -> list[Attempt]:
    """The operations of a history with their ends, in the order in which they began. Raises `ValueError`."""
    under_way: dict[str, int] = {}
    found: list[Attempt] = []
    for operation in history:
        if operation.type == "invoke":
            if operation.process in under_way:
                raise ValueError(f"{operation.process} began an operation before its last one had ended")
            under_way[operation.process] = len(found)
            found.append(Attempt(operation, None))
        else:
            if operation.process not in under_way:
                raise ValueError(f"{operation.process} ended an operation that had not begun")
            index = under_way.pop(operation.process)
            found[index] = Attempt(found[index].invoked, operation)
    return found


class _Facts:
    """What a history says about the log: who sent what, what lies where, what was read, and what must have happened."""

    def __init__(self, history: History) -> None:
        self.attempts = attempts_of(history)
        self.polls = [each for each in self.attempts if each.invoked.action == "poll" and each.type == "ok"]
        self.settles = [each for each in self.attempts if each.invoked.action == "settle" and each.type != "fail"]
        self.writes = [each for each in self.attempts if each.sent]
        self.sender = {entry.value: each for each in self.writes for entry in each.sent}
        self.read = {entry.value for each in self.polls for entry in each.read}
        self.values: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for entry in self._observed():
            if entry.offset is not None:
                self.values[entry.partition][entry.offset].add(entry.value)
        self.places: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for partition, offsets in self.values.items():
            for offset, values in offsets.items():
                for value in values:
                    self.places[value].add((partition, offset))
        self.offsets = {partition: sorted(offsets) for partition, offsets in self.values.items()}

    def _observed(self) -> Iterator[Entry]:
        for attempt in self.attempts:
            if attempt.type == "ok":
                yield from attempt.sent
                yield from attempt.read

    def offset(self, entry: Entry) -> int | None:
        """Where the value lies in its partition, from the one that has seen it."""
        if entry.offset is not None:
            return entry.offset
        return min(
            (offset for partition, offset in self.places[entry.value] if partition == entry.partition), default=None
        )

    def happened(self, attempt: Attempt) -> bool:
        """Whether the commit must have happened: it was acknowledged, or something of it was read."""
        if attempt.type == "info":
            return any(entry.value in self.read for entry in attempt.sent)
        return attempt.type == "ok"

    def may_have_happened(self, attempt: Attempt) -> bool:
        """As `happened`, or there is no way to tell: everything is read in the end, so what was sent would show."""
        return self.happened(attempt) or (attempt.type == "info" and not attempt.sent)


def anomalies(history: History) -> list[Anomaly]:
    """Everything that is wrong with a history, in the order of the anomalies' numbers."""
    return [anomaly for check in CHECKS for anomaly in check(history)]


def lost_writes(history: History) -> list[Anomaly]:
    """Anomaly 1."""
    facts = _Facts(history)
    return [*_passed_over(facts), *_missing_at_end(facts), *_not_settled(facts)]


def duplicates(history: History) -> list[Anomaly]:
    """Anomaly 2."""
    facts = _Facts(history)
    found = []
    for value, places in facts.places.items():
        if len(places) > 1:
            shown = ", ".join(f"{partition} offset {offset}" for partition, offset in sorted(places))
            found.append(Anomaly(2, "duplicate", min(places)[0], value, f"it is at {shown}"))
    settled: dict[tuple[str | None, str], str] = {}
    for attempt in filter(facts.happened, facts.settles):
        group = attempt.invoked.group
        for entry in attempt.read:
            earlier = settled.get((group, entry.value))
            settled[group, entry.value] = attempt.process
            if earlier is not None:
                seen = f"group {group} settled it twice, by {earlier} and by {attempt.process}"
                found.append(Anomaly(2, "duplicate", entry.partition, entry.value, seen))
    return found


def aborted_reads(history: History) -> list[Anomaly]:
    """Anomaly 3."""
    facts = _Facts(history)
    found = []
    for attempt in [*facts.polls, *facts.settles]:
        for entry in attempt.read:
            sender = facts.sender.get(entry.value)
            if sender is None or sender.type == "fail":
                why = "was never sent" if sender is None else f"was not committed by {sender.process}"
                seen = f"it {why}, and {attempt.process} read it"
                found.append(Anomaly(3, "aborted read", entry.partition, entry.value, seen))
    return found


def inconsistent_offsets(history: History) -> list[Anomaly]:
    """Anomaly 4."""
    facts = _Facts(history)
    return [
        Anomaly(4, "inconsistent offset", partition, min(values), f"offset {offset} has {', '.join(sorted(values))}")
        for partition, offsets in facts.values.items()
        for offset, values in sorted(offsets.items())
        if len(values) > 1
    ]


def broken_orders(history: History) -> list[Anomaly]:
    """Anomaly 5."""
    facts = _Facts(history)
    return [*_polls_out_of_order(facts), *_sends_out_of_order(facts, history), *_sends_mixed_up(facts)]


def torn_commits(history: History) -> list[Anomaly]:
    """Anomaly 6."""
    facts = _Facts(history)
    found = []
    seen: dict[str, set[str]] = defaultdict(set)
    since_whole: dict[str, dict[int, Attempt]] = defaultdict(dict)
    for poll in facts.polls:
        known, commits = seen[poll.process], since_whole[poll.process]
        known.update(entry.value for entry in poll.read)
        commits.update({id(sender): sender for e in poll.read if (sender := facts.sender.get(e.value)) is not None})
        if poll.ended is None or not poll.ended.whole:
            continue
        for commit in since_whole.pop(poll.process).values():
            for entry in commit.sent:
                if entry.value not in known and entry.partition in poll.ended.covers:
                    others = ", ".join(sorted(e.value for e in commit.sent if e.value in known))
                    text = f"{poll.process} saw {others} of the commit of {commit.process}, and not this"
                    found.append(Anomaly(6, "torn commit", entry.partition, entry.value, text))
    return found


CHECKS: tuple[Check, ...] = (
    lost_writes,
    duplicates,
    aborted_reads,
    inconsistent_offsets,
    broken_orders,
    torn_commits,
)


def _passed_over(facts: _Facts) -> Iterator[Anomaly]:
    """Values that nobody read, though somebody read behind them."""
    highest: dict[str, int] = {}
    for poll in facts.polls:
        for entry in poll.read:
            if entry.offset is not None:
                highest[entry.partition] = max(entry.offset, highest.get(entry.partition, -1))
    for attempt in filter(facts.happened, facts.writes):
        for entry in attempt.sent:
            offset, last = facts.offset(entry), highest.get(entry.partition, -1)
            if entry.value not in facts.read and offset is not None and offset <= last:
                seen = f"{attempt.process} sent it to offset {offset}; nobody read it, though somebody read {last}"
                yield Anomaly(1, "lost write", entry.partition, entry.value, seen)


def _missing_at_end(facts: _Facts) -> Iterator[Anomaly]:
    """Values that a process did not get, though it read everything after they were acknowledged."""
    acknowledged: dict[str, list[tuple[int, str]]] = defaultdict(list)
    ends = [(each.ended.at, each) for each in facts.writes if each.ended is not None and each.type == "ok"]
    for at, attempt in sorted(ends, key=lambda pair: pair[0]):
        for entry in attempt.sent:
            acknowledged[entry.partition].append((at, entry.value))
    seen: dict[str, set[str]] = defaultdict(set)
    checked: dict[tuple[str, str], int] = defaultdict(int)
    for poll in facts.polls:
        known = seen[poll.process]
        known.update(entry.value for entry in poll.read)
        if poll.ended is None or not poll.ended.at_end:
            continue
        for partition in poll.ended.covers:
            values = acknowledged[partition]
            begin = checked[poll.process, partition]
            end = checked[poll.process, partition] = bisect_left(values, (poll.invoked.at, ""))
            for _, value in values[begin:end]:
                if value not in known:
                    text = f"{poll.process} read everything after it was acknowledged, and not this"
                    yield Anomaly(1, "lost write", partition, value, text)


def _not_settled(facts: _Facts) -> Iterator[Anomaly]:
    """Values that a group never settled, though it settled values behind them."""
    last: dict[tuple[str | None, str], int] = {}
    settled: dict[str | None, set[str]] = defaultdict(set)
    for attempt in filter(facts.may_have_happened, facts.settles):
        group = attempt.invoked.group
        settled[group].update(entry.value for entry in attempt.read)
        for entry in attempt.read:
            offset = facts.offset(entry)
            if offset is not None and facts.happened(attempt):
                last[group, entry.partition] = max(offset, last.get((group, entry.partition), -1))
    for (group, partition), highest in last.items():
        offsets = facts.offsets.get(partition, [])
        for offset in offsets[: bisect_right(offsets, highest)]:
            for value in facts.values[partition][offset] - settled[group]:
                text = f"group {group} settled offset {highest}, and never offset {offset}"
                yield Anomaly(1, "lost write", partition, value, text)


def _polls_out_of_order(facts: _Facts) -> Iterator[Anomaly]:
    readers: dict[str, dict[str, int]] = defaultdict(dict)
    for poll in facts.polls:
        last = readers[poll.process] if poll.invoked.group is None else {}
        for entry in poll.read:
            if entry.offset is None:
                continue
            before, last[entry.partition] = last.get(entry.partition), entry.offset
            if before is None:
                continue
            text = _step(facts.offsets[entry.partition], before, entry.offset)
            if text:
                yield Anomaly(5, "broken order", entry.partition, entry.value, f"{poll.process} {text}")


def _step(offsets: list[int], before: int, after: int) -> str:
    """What is wrong with reading one offset after the other, given those that hold a value."""
    if after <= before:
        return f"read offset {after} after offset {before}"
    left_out = offsets[bisect_right(offsets, before) : bisect_left(offsets, after)]
    if left_out:
        return f"read offset {after} after offset {before}, and left out {len(left_out)} in between"
    return ""


def _sends_out_of_order(facts: _Facts, history: History) -> Iterator[Anomaly]:
    """Values before those that had been acknowledged when they were sent, in any process."""
    attempt_of = {id(each.invoked): each for each in facts.writes}
    attempt_of |= {id(each.ended): each for each in facts.writes if each.ended is not None and each.type == "ok"}
    acknowledged: dict[str, int] = {}
    for operation in history:
        attempt = attempt_of.get(id(operation))
        if attempt is None or not facts.happened(attempt):
            continue
        for entry in attempt.sent:
            offset, floor = facts.offset(entry), acknowledged.get(entry.partition, -1)
            if offset is None:
                continue
            if operation.type == "ok":
                acknowledged[entry.partition] = max(offset, floor)
            elif offset <= floor:
                text = f"{attempt.process} got offset {offset} when {floor} had been acknowledged"
                yield Anomaly(5, "broken order", entry.partition, entry.value, text)


def _sends_mixed_up(facts: _Facts) -> Iterator[Anomaly]:
    for attempt in facts.writes:
        for partition, entries in _by_partition(attempt.sent):
            for one, other in itertools.pairwise(entries):
                first, second = facts.offset(one), facts.offset(other)
                if first is not None and second is not None and second <= first:
                    text = (
                        f"{attempt.process} sent it after {one.value}, which is at offset {first}, not before {second}"
                    )
                    yield Anomaly(5, "broken order", partition, other.value, text)


def _by_partition(entries: Iterable[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.partition].append(entry)
    yield from found.items()
