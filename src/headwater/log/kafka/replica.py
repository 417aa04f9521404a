"""The replica: a copy of the log's catalog in this process, brought up to date from the catalog's topic.

Every transaction of the catalog is one Kafka transaction with messages in two topics:

    turns      a ticket, written first. Transactions take their turns in the order of their tickets: one begins to work
               when all before it were committed or aborted.
    catalog    a change, written last, in one or more parts: what the transaction changes in the catalog's tables.

So the changes are a sequence that every process applies alike, and the number of the last commit is a position. Two
topics, because a ticket that waits for its turn holds back from readers whatever comes behind it in its own.
"""

from __future__ import annotations

import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headwater.errors import LogReplaced, LogUnavailable, UsageError
from headwater.log.embedded.catalog import FORMAT
from headwater.log.embedded.tables import TABLES
from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.cluster import PAUSE_SECONDS, STARTING, settings_of
from headwater.log.kafka.saved import SavedReplicas
from headwater.log.kafka.transactions import MESSAGE_BYTES_MAX, Message
from headwater.system.background import Background
from headwater.system.changesets import Recorder, make_changes
from headwater.system.sqlite import Connection, connect, create_tables

CHANGE = b"change"
_FORMAT = ("format", str(FORMAT).encode())
_PART = struct.Struct(">II")
"""In front of each part of a change: its number, and how many there are."""

ANSWER_SECONDS_MAX = 30.0
IDLE_FETCH_MS = 50
"""How long the broker may hold back the news that there is nothing new."""
LOOK_EVERY_SECONDS = 1.0
MESSAGES_AT_ONCE = 10_000
SAVE_OFFSETS = 3000
"""After this many offsets of the catalog's topic, two for most commits, the copy is saved for other processes."""


def change_messages(changes: bytes, summary: bytes) -> list[Message]:
    """A change as messages; `summary` is for people who look at the topic."""
    size = MESSAGE_BYTES_MAX // 2
    parts = [changes[at : at + size] for at in range(0, len(changes), size)]
    return [
        (CHANGE, _PART.pack(number, len(parts)) + part, [_FORMAT, ("commit", summary)] if number == 0 else None)
        for number, part in enumerate(parts)
    ]


class Replica:
    """A copy of the catalog. `seen` is how far the topic was read: everything before it was applied."""

    def __init__(self, address: KafkaAddress, identity: str) -> None:
        self._address, self._saved = address, SavedReplicas(identity)
        self._directory = tempfile.TemporaryDirectory(prefix="headwater-kafka-")
        self._path = Path(self._directory.name) / "catalog.db"
        self.start = self._saved.load(self._path)
        """The offset of the catalog's topic from which it is read: everything before it was saved."""
        self._writer = self._connect()
        if not self.start:
            create_tables(self._writer, f"{TABLES} INSERT INTO log VALUES (1, {FORMAT}, 0, 0, 0, NULL, 0);")
        self._idle: list[Connection] = []
        self._idle_lock, self._applying = threading.Lock(), threading.RLock()
        self._news = threading.Condition()
        self._seen = self._applied = self._read_up_to = self._saved_up_to = self.start
        self._count = 0
        self._changes_read: set[int] = set()
        self._parts: list[bytes] = []
        self._closed = False
        self._failure: Exception | None = None
        settings = {
            "group.id": f"{address.catalog}-replica",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": IDLE_FETCH_MS,
        }
        self._consumer = Consumer(settings_of(address, **settings))
        # One that polls answers no other question meanwhile.
        self._asker = Consumer(settings_of(address, **settings))
        self._hasty = Consumer(settings_of(address, **{**settings, "isolation.level": "read_uncommitted"}))
        self._place, self._tickets = TopicPartition(address.catalog, 0, self.start), TopicPartition(address.turns, 0)
        self._consumer.assign([self._place])
        self._follower = Background(
            "kafka-catalog", self._follow, gives_up_on=lambda error: isinstance(error, UsageError)
        ).start()

    def end(self) -> int:
        """Up to where all transactions are committed or aborted. Raises `LogUnavailable`."""
        return self._ask(self._asker, self._place)

    def has_turn(self, ticket: int) -> bool:
        """Whether all transactions with earlier tickets are committed or aborted, and their changes can be read."""
        if self._ask(self._asker, self._tickets) < ticket:
            return False
        # A transaction is decided before each of its topics says so.
        return self.end() == self._ask(self._hasty, self._place)

    def _ask(self, consumer: Consumer, place: TopicPartition) -> int:
        if self._closed:
            raise UsageError("The log is closed.", hint="Open it again.")
        answer = self._watermarks(consumer, place)
        if answer is None:
            raise LogUnavailable(self._address.url, "it does not answer")
        return int(answer[1])

    def _watermarks(self, consumer: Consumer, place: TopicPartition) -> tuple[int, int] | None:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            try:
                return consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS_MAX)
            except KafkaException as error:
                # A broker that has just started does not lead its partitions yet.
                if error.args[0].code() not in STARTING or time.monotonic() >= deadline or self._closed:
                    raise LogUnavailable(self._address.url, str(error.args[0].str())) from error
            time.sleep(PAUSE_SECONDS)

    def wait_until(self, offset: int, seconds: float) -> bool:
        """Whether everything before an offset was applied within this time."""
        with self._news:
            reached = self._news.wait_for(
                lambda: self._seen >= offset or self._closed or self._failure is not None, seconds
            )
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise UsageError("The log is closed.", hint="Open it again.")
            return reached

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """A transaction that reads the copy as it is."""
        connection = self._borrow()
        try:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        finally:
            with self._idle_lock:
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)

    @contextmanager
    def changing(self) -> Iterator[tuple[Connection, Recorder]]:
        """A transaction that changes the copy; it is undone unless it is `kept` within the block."""
        with self._applying:
            self._writer.execute("BEGIN IMMEDIATE")
            recorder = Recorder(self._writer)
            try:
                yield self._writer, recorder
            finally:
                recorder.close()
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")

    def keep(self, offset: int) -> None:
        """Keeps the changes of the transaction, whose message is at an offset."""
        self._writer.execute("COMMIT")
        self._applied = offset + 1

    def find(self, offset: int, end: int) -> bool:
        """Whether there is a change at an offset, once everything up to an end was read. For use within `changing`.

        Raises `LogUnavailable` if it cannot be read in time.
        """
        with self._news:
            # The thread that would apply it waits for the one that asks: what was read counts.
            if not self._news.wait_for(lambda: self._read_up_to >= min(end, offset + 1), ANSWER_SECONDS_MAX):
                raise LogUnavailable(self._address.url, "its catalog cannot be read in time")
            return offset in self._changes_read

    def ticket(self) -> int:
        """Counts what was applied: see `Wakes`."""
        with self._news:
            return self._count

    def wait_news(self, ticket: int, seconds: float) -> None:
        """Returns when something was applied after the ticket was taken, or after so long."""
        with self._news:
            self._news.wait_for(lambda: self._count != ticket or self._closed, min(seconds, LOOK_EVERY_SECONDS))

    def touch(self) -> None:
        """Wakes those who wait in this process."""
        with self._news:
            self._count += 1
            self._news.notify_all()

    def close(self) -> None:
        with self._news:
            if self._closed:
                return
            self._closed = True
            self._news.notify_all()
        self._follower.stop()
        self._consumer.close()
        self._asker.close()
        self._hasty.close()
        with self._idle_lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()
        self._save()
        with self._applying:
            self._writer.close()
        self._directory.cleanup()

    def _follow(self) -> None:
        while not self._closed:
            first = self._consumer.poll(0.2)
            if first is not None:
                self._take([first, *self._consumer.consume(MESSAGES_AT_ONCE, 0)])

    def _take(self, messages: Sequence[Any]) -> None:
        changes: list[tuple[int, bytes]] = []
        seen = self._seen
        for message in messages:
            error = message.error()
            if error is not None:
                seen = max(seen, self._end_of(message, error))
            else:
                self._check_format(message.headers())
                whole = self._joined(message.value())
                if whole is not None and message.offset() >= self._applied:
                    changes.append((message.offset(), whole))
                # Behind a change comes the mark that its transaction was committed.
                seen = message.offset() + (2 if whole is not None else 1)
        with self._news:
            self._read_up_to = max(seen, self._read_up_to)
            self._changes_read = {offset for offset, _ in changes}
            self._news.notify_all()
        # Not without a change: `find` may hold the lock, and wait for the next messages.
        if changes:
            self._apply(changes)
            self._save()
        with self._news:
            self._count += seen > self._seen
            self._seen = max(seen, self._seen)
            self._news.notify_all()

    def _end_of(self, message: Any, error: KafkaError) -> int:
        """Up to where everything is known, if that is what an error says."""
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (that is its name)
            return int(message.offset())
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID):
            self._failure = LogReplaced(self._address.url)
        # Everything else the client tries again by itself.
        return 0

    def _check_format(self, headers: Sequence[tuple[str, bytes]] | None) -> None:
        """Raises `UsageError`, here and for those who wait, at a change of tables that this version does not have."""
        found = dict(headers or ()).get("format", _FORMAT[1])
        if found != _FORMAT[1]:
            self._failure = UsageError(
                f"The log {self._address.url} has format {found.decode()}; this version reads format {FORMAT}.",
                hint="Use the version of headwater that wrote it.",
            )
            with self._news:
                self._news.notify_all()
            raise self._failure

    def _joined(self, value: bytes) -> bytes | None:
        """The change whose last part this is."""
        number, count = _PART.unpack_from(value)
        if number == 0:
            self._parts.clear()
        self._parts.append(value[_PART.size :])
        return b"".join(self._parts) if number == count - 1 else None

    def _apply(self, changes: Sequence[tuple[int, bytes]]) -> None:
        with self._applying:
            new = [(offset, change) for offset, change in changes if offset >= self._applied]
            if not new or self._closed:
                return
            self._writer.execute("BEGIN IMMEDIATE")
            for _, change in new:
                make_changes(self._writer, change)
            self._writer.execute("COMMIT")
            self._applied = new[-1][0] + 1

    def _save(self) -> None:
        """Saves the copy for the next process, now and then."""
        with self._applying:
            if self._applied - self._saved_up_to < SAVE_OFFSETS:
                return
            # Everything is in the file itself, unless somebody reads: then it is for the next time.
            busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if not busy:
                self._saved.save(self._path, self._applied)
                self._saved_up_to = self._applied

    def _borrow(self) -> Connection:
        with self._idle_lock:
            if self._closed:
                raise UsageError("The log is closed.", hint="Open it again.")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _connect(self) -> Connection:
        return connect(self._path, synchronous="NORMAL")
