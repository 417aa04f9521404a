"""The catalog of a log on Kafka: the tables of the embedded one; each of its transactions is one of Kafka's."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.errors import Indeterminate, LogBusy, LogUnavailable, UsageError
from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.replica import Replica, change_messages
from headwater.log.kafka.transactions import Transactions
from headwater.log.topic import Topic
from headwater.system.clock import Clock
from headwater.system.sqlite import Connection

WRITE_SECONDS_MAX = 90.0
TURN_SECONDS_MAX = 5.0
"""A transaction that waits longer for those before it gives its ticket back and takes another one: while it waits, its
own time runs."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.0005, 0.01
SEEN_SECONDS_MAX = 30.0
COMPACTION_LAG_SECONDS = 3600
"""Kafka compacts no record that is younger: a topic can be read as it was for this time."""


class KafkaCatalog:
    """See `Catalog` for the contract."""

    def __init__(self, address: KafkaAddress, identity: str, transactions: Transactions, clock: Clock) -> None:
        self._address, self.identity, self._transactions, self._clock = address, identity, transactions, clock
        self.replica = Replica(address)
        self._writing = threading.Lock()
        self._local = threading.local()
        self._pid = os.getpid()
        self.summary: Callable[[], object] = lambda: None
        """What the message of the transaction that is being written says to people."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        outer: Connection | None = getattr(self._local, "connection", None)
        if outer is not None:
            yield outer
            return
        self._check_process()
        self.refresh()
        with self.look() as connection:
            yield connection

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """As `read`, but of what this process knows already."""
        outer: Connection | None = getattr(self._local, "connection", None)
        if outer is not None:
            yield outer
            return
        with self.replica.look() as connection:
            self._local.connection = connection
            try:
                yield connection
            finally:
                self._local.connection = None

    def refresh(self) -> None:
        """Returns when everything acknowledged before the call is known here. Raises `LogUnavailable`."""
        if not self.replica.wait_until(self.replica.end(), SEEN_SECONDS_MAX):
            raise LogUnavailable(self._address.url, "its catalog cannot be read in time")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self._check_process()
        if not self._writing.acquire(timeout=WRITE_SECONDS_MAX):
            raise LogBusy(self._address.url, WRITE_SECONDS_MAX)
        try:
            self._take_turn()
            written: int | None = None
            try:
                with self.replica.changing() as (connection, recorder):
                    yield connection
                    changes = recorder.changes()
                    if changes:
                        written = self._commit(changes)
                        self.replica.keep(written)
            finally:
                if written is None:
                    self._transactions.abort()
            if written is not None:
                self.replica.wait_until(written + 1, SEEN_SECONDS_MAX)
        finally:
            self._writing.release()

    def position(self) -> int:
        with self.read() as tx:
            return int(tx.execute("SELECT commit_number FROM log").fetchone()[0])

    def committed_at(self) -> int:
        with self.read() as tx:
            return int(tx.execute("SELECT committed_at FROM log").fetchone()[0])

    def compacted_commit(self, topic: Topic) -> int:
        """Kafka does not tell how far compaction has been; nothing that is younger than its lag."""
        if topic.settings.cleanup != "compact":
            return 0
        before = self._clock.now() - COMPACTION_LAG_SECONDS * 1_000_000
        with self.look() as tx:
            row = tx.execute(
                "SELECT max(last_commit) FROM segments WHERE topic_id = ? AND last_at < ?", (topic.id, before)
            ).fetchone()
        return int(row[0] or 0)

    def close(self) -> None:
        """Waits for a transaction that writes."""
        with self._writing:
            self._transactions.drop()
        self.replica.close()

    # The wake-up of those who wait for a commit: see `Wakes`.

    def touch(self) -> None:
        self.replica.touch()

    def ticket(self) -> int:
        return self.replica.ticket()

    def wait(self, ticket: int, seconds: float) -> None:
        self.replica.wait_news(ticket, seconds)

    def _take_turn(self) -> None:
        """Begins a transaction, and returns when all before it are committed or aborted, and known here."""
        deadline = time.monotonic() + WRITE_SECONDS_MAX
        while True:
            self._transactions.begin()
            try:
                [ticket] = self._transactions.send(self._address.turns, 0, [(None, b"", None)])
                if self._comes(ticket):
                    self.refresh()
                    return
            except BaseException:
                self._transactions.abort()
                raise
            self._transactions.abort()
            if time.monotonic() > deadline:
                raise LogBusy(self._address.url, WRITE_SECONDS_MAX)

    def _comes(self, ticket: int) -> bool:
        """Whether a ticket's turn comes soon enough."""
        deadline, pause = time.monotonic() + TURN_SECONDS_MAX, PAUSE_SECONDS
        while not self.replica.has_turn(ticket):
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
        return True

    def _commit(self, changes: bytes) -> int:
        """Commits the transaction with its change; where that is."""
        summary = json.dumps(self.summary()).encode()
        offsets = self._transactions.send(self._address.catalog, 0, change_messages(changes, summary))
        try:
            self._transactions.commit()
        except LogUnavailable as error:
            if not self._was_committed(offsets[-1], error):
                raise
        return offsets[-1]

    def _was_committed(self, offset: int, error: LogUnavailable) -> bool:
        """Whether a transaction was committed whose answer is missing. Raises `Indeterminate` if nobody can tell."""
        try:
            self._transactions.settle()
            return self.replica.find(offset, self.replica.end())
        except LogUnavailable:
            raise Indeterminate(
                f"Kafka could not say whether the commit happened: {error.reason}.",
                hint="Look at the log's position or at your bookmark before you try again.",
            ) from error

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise UsageError("The log was opened by the parent process.", hint="Open it again in this one.")
