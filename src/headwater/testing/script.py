"""A scripted life of a log that touches everything, one step at a time, with what each step must lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from headwater.errors import Determinate
from headwater.log.commit import Commit
from headwater.log.consumer import Consumer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of
from headwater.log.producer import Producer
from headwater.testing.clock import ManualClock
from headwater.testing.expectation import STEP, Entry, Expectation, Identity, InFlight, require
from headwater.testing.storage import Operation, PowerCutStorage

# Longer than any run of the script takes: no lease is renewed in the background, so every run is alike.
LEASE = timedelta(days=1)
RETENTION_AGE = timedelta(hours=1)
RETENTION_BYTES = 12_000
SMALL_SEGMENT = 1_500


class Script:
    """A log, what was acknowledged so far, and the step that is in flight."""

    def __init__(self, directory: Path, storage: PowerCutStorage) -> None:
        self.clock = ManualClock()
        self.expected = Expectation()
        self.in_flight: InFlight | None = None
        self.step = ""
        self._directory, self._storage = directory, storage
        self._log: EmbeddedLog | None = None
        self._number = 0
        self._ids = 0

    @property
    def log(self) -> EmbeddedLog:
        assert self._log is not None, "the first step opens the log"
        return self._log

    def run(self) -> None:
        """All steps, in order."""
        try:
            for step in STEPS:
                self.step = step.__name__.strip("_")
                self.clock.advance(timedelta(seconds=1))
                step(self)
        finally:
            self.close()

    def open(self) -> None:
        """Reopens the log, as another process would."""
        self.close()
        self._log = EmbeddedLog(self._directory, upkeep=False, storage=self._storage, clock=self.clock)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def atomically(
        self, act: Callable[[], None], change: Callable[[Expectation], None], happened: Callable[[EmbeddedLog], bool]
    ) -> None:
        """A step that happens as a whole or not at all."""
        self.in_flight = InFlight(change, happened)
        act()
        change(self.expected)
        self.in_flight = None

    def gradually(self, act: Callable[[], object], removable: Mapping[str, set[Identity]]) -> None:
        """A step that removes some of what it may remove, bit by bit; afterwards the log says what is left."""
        frozen = {topic: frozenset(identities) for topic, identities in removable.items()}
        self.in_flight = InFlight(lambda _: None, lambda _: False, frozen)
        act()
        for topic, identities in frozen.items():
            kept = {
                (record.headers.get(STEP, ""), _number(record.key, record.value)) for record in self.log.read(topic)
            }
            entries = self.expected.topics[topic]
            self.expected.topics[topic] = {i: e for i, e in entries.items() if i in kept or i not in identities}
        self.in_flight = None

    def commit(
        self,
        rows: Mapping[str, Sequence[Mapping[str, object]]],
        *,
        bookmarks: Mapping[str, object] | None = None,
        deletes: Mapping[str, Sequence[int]] | None = None,
        consumer: Consumer | None = None,
        producer: tuple[Producer, int] | None = None,
        partition: int | None = None,
    ) -> None:
        """One commit of everything given, with a header that names it."""
        self._number += 1
        name, number = f"{self._number:03}", self.expected.position + 1
        moves = consumer.moves() if consumer is not None else []

        def fill(commit: Commit) -> None:
            for topic, added in rows.items():
                commit.append(topic, added, partition=partition)
            for topic, keys in (deletes or {}).items():
                commit.delete(topic, [{"id": key} for key in keys])
            for bookmark, value in (bookmarks or {}).items():
                commit.bookmark(bookmark, value)
            if consumer is not None:
                commit.offsets(consumer)

        def act() -> None:
            numbered = {"producer": producer[0], "sequence": producer[1]} if producer is not None else {}
            with self.log.commit(headers={STEP: name}, **numbered) as commit:  # type: ignore[arg-type]
                fill(commit)

        def change(expected: Expectation) -> None:
            expected.position = number
            for topic, added in rows.items():
                empty: dict[str, object] = dict.fromkeys(self.log.topic(topic).schema.names)
                expected.topics[topic] |= {(name, _number(None, row)): Entry(number, {**empty, **row}) for row in added}
            for topic, keys in (deletes or {}).items():
                expected.topics[topic] |= {(name, key): Entry(number, None) for key in keys}
            expected.bookmarks |= bookmarks or {}
            expected.offsets |= {(move.group, move.topic.name, move.partition): move.offset for move in moves}
            if producer is not None:
                expected.sequences[producer[0].name or ""] = producer[1]

        self.atomically(act, change, lambda log: commit_of(log.position()) == number)

    def new_ids(self, count: int) -> range:
        """Ids that no record had before; they grow."""
        self._ids += count
        return range(self._ids - count, self._ids)

    def failing(self, operation: Operation, act: Callable[[], object]) -> None:
        """Something that does not happen, because an operation of the storage fails in the middle of it."""
        self._storage.fail_next = operation
        try:
            act()
        except Determinate:
            require(self._storage.fail_next is None, "an error came from elsewhere")
        else:
            raise AssertionError(f"{operation} failed, and nobody noticed")

    def create(self, name: str, schema: str, **options: object) -> None:
        """A new topic."""
        self.atomically(
            lambda: _discard(self.log.create(name, schema, **options)),  # type: ignore[arg-type]
            lambda expected: expected.topics.update({name: {}}),
            lambda log: name in [topic.name for topic in log.topics()],
        )

    def drop(self, name: str) -> None:
        """One topic less."""
        self.atomically(
            lambda: self.log.drop(name),
            lambda expected: _discard(expected.topics.pop(name)),
            lambda log: name not in [topic.name for topic in log.topics()],
        )

    def superseded(self, topic: str) -> set[Identity]:
        """What compaction may remove: all but the newest record per key, and tombstones once they are old."""
        newest: dict[int, Identity] = {}
        entries = self.expected.topics[topic]
        for identity in sorted(entries, key=lambda i: entries[i].commit):
            newest[identity[1]] = identity
        return {i for i in entries if newest[i[1]] != i or entries[i].value is None}

    def outside_active(self, topic: str) -> set[Identity]:
        """What retention may remove: everything but the records of the active segments."""
        kept: set[tuple[int, int]] = set()
        for segment in self.log.segments(topic):
            if segment.state == "active":
                kept |= {(segment.partition, offset) for offset in range(segment.base_offset, segment.end_offset)}
        return {
            (record.headers.get(STEP, ""), _number(record.key, record.value))
            for record in self.log.read(topic)
            if (record.partition, int(record.offset)) not in kept
        }


def _number(key: object, value: Mapping[str, object] | None) -> int:
    number = key if value is None else value["id"]
    assert isinstance(number, int)
    return number


def _discard(_: object) -> None:
    """For a call whose result does not matter."""


def _orders(script: Script, count: int) -> list[dict[str, object]]:
    at = datetime(2026, 1, 1, 10, tzinfo=UTC)
    return [
        {"id": n, "amount": Decimal(n) / 4 + Decimal("0.50"), "at": at + timedelta(seconds=n)}
        for n in script.new_ids(count)
    ]


def _notes(script: Script, count: int) -> list[dict[str, object]]:
    return [{"id": n, "note": f"note {n} " + "x" * (n * 7 % 50)} for n in script.new_ids(count)]


def _balances(ids: Sequence[int], value: int) -> list[dict[str, object]]:
    return [{"id": n, "balance": value + n} for n in sorted(ids)]


def _first_opening(script: Script) -> None:
    script.open()


def _topics(script: Script) -> None:
    script.create(
        "orders", "id bigint, amount decimal(12,2), at timestamp", key="id", partitions=2, event_time="at",
        cleanup="none", segment_bytes_max=2_000,
    )  # fmt: skip
    script.create("payments", "id bigint, note string", partitions=2, cleanup="none", segment_bytes_max=SMALL_SEGMENT)
    script.create(
        "accounts", "id bigint, balance bigint", key="id", partitions=2, cleanup="compact",
        segment_bytes_max=SMALL_SEGMENT, tombstone_grace=RETENTION_AGE,
    )  # fmt: skip
    script.create(
        "events", "id bigint, note string", retention_age=RETENTION_AGE, segment_bytes_max=SMALL_SEGMENT, hold_age_max=0
    )
    script.create("ring", "id bigint, note string", retention_bytes=RETENTION_BYTES, hold_bytes_max=0)
    script.create("copies", "id bigint, note string", partitions=2, cleanup="none")
    script.create("doomed", "id bigint, note string", partitions=2)


def _first_records(script: Script) -> None:
    script.commit({"orders": _orders(script, 7)})
    script.commit({"doomed": _notes(script, 3)}, partition=1)
    script.commit({"events": _notes(script, 9), "ring": _notes(script, 9)})


def _over_several_topics(script: Script) -> None:
    for n in range(3):
        script.commit(
            {"orders": _orders(script, 4), "payments": _notes(script, 4), "accounts": _balances(range(4), n)},
            bookmarks={"source": {"line": n}, f"shop-{n}": n},
        )


def _refused_and_left(script: Script) -> None:
    """A commit whose condition does not hold, and one whose block fails: neither happens."""
    with script.log.commit(on_conflict="return") as commit:
        commit.append("orders", _orders(script, 2))
        commit.bookmark("source", "new", expect="another")
    require(commit.conflict is not None, "a condition that does not hold was passed over")
    with suppress(LookupError), script.log.commit() as commit:
        commit.append("orders", _orders(script, 2))
        raise LookupError("the block fails")


def _numbered(script: Script) -> None:
    with script.log.producer(name="cash") as producer:
        first = script.expected.sequences.get("cash", 0) + 1
        for sequence in range(first, first + 2):
            script.commit({"payments": _notes(script, 3)}, producer=(producer, sequence))


def _consumed(script: Script) -> None:
    with script.log.consumer("orders", group="billing", lease=LEASE) as consumer:
        while consumer.poll(timedelta(0)) is not None:
            script.commit({}, consumer=consumer)


def _copied(script: Script) -> None:
    with script.log.consumer("payments", group="copying", lease=LEASE) as consumer:
        while (batch := consumer.poll(timedelta(0))) is not None:
            rows = batch.records.select(["id", "note"]).to_pylist()
            script.commit({"copies": rows}, consumer=consumer, partition=batch.partition)


def _evolved(script: Script) -> None:
    def change(expected: Expectation) -> None:
        entries = expected.topics["payments"]
        for identity, entry in entries.items():
            assert entry.value is not None
            entries[identity] = Entry(entry.commit, {**entry.value, "currency": None})

    script.atomically(
        lambda: _discard(script.log.alter("payments", schema="id bigint, note string, currency string")),
        change,
        lambda log: "currency" in log.topic("payments").schema.names,
    )
    rows = [{**row, "currency": "EUR"} for row in _notes(script, 3)]
    script.commit({"payments": rows}, partition=0)


def _sealed(script: Script) -> None:
    for topic in ("orders", "payments", "accounts"):
        script.gradually(lambda topic=topic: script.log.seal(topic), {})  # type: ignore[misc]


def _balances_change(script: Script) -> None:
    for n in range(3):
        script.commit({"accounts": _balances([n, n + 1, 7], 10 * n)})
    script.commit({"accounts": _balances([0], 1)}, deletes={"accounts": [1, 7]})


def _compacted(script: Script) -> None:
    script.gradually(lambda: script.log.seal("accounts"), {})
    script.expected.compacted.add("accounts")
    before = len(script.expected.topics["accounts"])
    script.gradually(lambda: script.log.compact("accounts"), {"accounts": script.superseded("accounts")})
    require(len(script.expected.topics["accounts"]) < before, "compaction removed nothing")


def _ring_fills(script: Script) -> None:
    for _ in range(8):
        script.commit({"ring": _notes(script, 20)})


def _retained(script: Script) -> None:
    before = {topic: len(script.expected.topics[topic]) for topic in ("events", "ring")}
    script.clock.advance(RETENTION_AGE)
    script.commit({"events": _notes(script, 4)})
    # The first round ends what is old enough, so that the second can delete it.
    for _ in range(2):
        removable = {topic: script.outside_active(topic) for topic in ("events", "ring")}
        removable["events"] |= set(script.expected.topics["events"])
        removable["accounts"] = script.superseded("accounts")
        script.gradually(script.log.upkeep, removable)
        script.clock.advance(RETENTION_AGE + timedelta(seconds=1))
    for topic, count in before.items():
        require(len(script.expected.topics[topic]) < count, f"retention removed nothing from {topic}")


def _dropped(script: Script) -> None:
    script.drop("doomed")
    script.create("doomed", "id bigint, note string")
    script.commit({"doomed": _notes(script, 2)})


def _failed(script: Script) -> None:
    """What an append that failed leaves behind, directories above all, is in the way of nothing."""
    for operation in ("make_directory", "write", "sync", "sync_directory"):
        script.create(f"late-{operation}", "id bigint, note string")
        script.failing(operation, lambda: script.log.append(f"late-{operation}", [{"id": 1}]))  # noqa: B023
        script.commit({f"late-{operation}": _notes(script, 2)})
        script.failing("write", lambda: script.log.append(f"late-{operation}", [{"id": 1}]))  # noqa: B023
        script.commit({f"late-{operation}": _notes(script, 2)})


def _opened_again(script: Script) -> None:
    script.open()


def _last_records(script: Script) -> None:
    script.commit({"orders": _orders(script, 4), "events": _notes(script, 2), "accounts": _balances([1, 2], 99)})
    script.gradually(lambda: script.log.seal("orders"), {})


STEPS: tuple[Callable[[Script], None], ...] = (
    _first_opening,
    _topics,
    _first_records,
    _over_several_topics,
    _refused_and_left,
    _numbered,
    _consumed,
    _copied,
    _sealed,
    _evolved,
    _balances_change,
    _compacted,
    _ring_fills,
    _retained,
    _failed,
    _opened_again,
    _over_several_topics,
    _numbered,
    _consumed,
    _copied,
    _dropped,
    _compacted,
    _last_records,
)
