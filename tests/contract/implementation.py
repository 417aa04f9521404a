"""What the contract suite needs to know of a log: how to open it, and how to bring about what its users cannot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from headwater.log.consumer import Consumer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.log import KafkaLog
from headwater.log.port import Log
from headwater.log.topic import HOLD_AGE_DEFAULT
from headwater.testing.clock import ManualClock


class Implementation(ABC):
    """One log, empty at first. A new kind of log writes one such class and names it in `conftest.py`."""

    @abstractmethod
    def open(self) -> Log:
        """One more handle of the same log, as another process would have it. `close` closes it."""

    @abstractmethod
    def let_time_pass(self) -> None:
        """What is appended from now on is received later than everything before, by a second or so at least."""

    @abstractmethod
    def settle(self, log: Log, topic: str) -> None:
        """Brings the topic's records into the form in which they are kept for long."""

    @abstractmethod
    def forget(self, log: Log, topic: str) -> None:
        """Lets retention delete every record that the topic has now, also those that groups have not read."""

    @abstractmethod
    def end_lease(self, consumer: Consumer, survivors: list[Consumer]) -> None:
        """Lets a consumer be taken for dead, though it is not, while the survivors' leases continue."""

    @abstractmethod
    def stalled(self) -> AbstractContextManager[None]:
        """While the block runs, nothing that is appended becomes durable."""

    @abstractmethod
    def close(self) -> None:
        """Gives everything back."""


LEASE = timedelta(hours=1)
"""The lease of consumers in the suite: so long that it ends only where a test says so."""

RETENTION = timedelta(days=1)
"""The retention of topics that `forget` is used on."""


class EmbeddedImplementation(Implementation):
    """The log in a directory. Its clock stands still but for `let_time_pass`, `forget` and `end_lease`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._clock = ManualClock()
        self._opened = ExitStack()

    def open(self) -> EmbeddedLog:
        log = EmbeddedLog(self._directory, clock=self._clock, upkeep=False)
        return self._opened.enter_context(log)

    def let_time_pass(self) -> None:
        self._clock.advance(timedelta(seconds=1))

    def settle(self, log: Log, topic: str) -> None:
        assert isinstance(log, EmbeddedLog)
        log.seal(topic)

    def forget(self, log: Log, topic: str) -> None:
        assert isinstance(log, EmbeddedLog)
        log.seal(topic)
        self._clock.advance(RETENTION + HOLD_AGE_DEFAULT + timedelta(seconds=1))
        log.upkeep()

    def end_lease(self, consumer: Consumer, survivors: list[Consumer]) -> None:
        for _ in range(2):
            self._clock.advance(LEASE * 0.6)
            for survivor in survivors:
                survivor._membership.keep()

    @contextmanager
    def stalled(self) -> Iterator[None]:
        with self.open()._catalog.write():
            yield

    def close(self) -> None:
        self._opened.close()


class KafkaImplementation(Implementation):
    """A log on Kafka, of this test alone, in a cluster that tests share. As to its clock, see above."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address, self._clock = address, ManualClock()
        self._opened = ExitStack()

    def open(self) -> KafkaLog:
        return self._opened.enter_context(KafkaLog(self._address, upkeep=False, clock=self._clock))

    def let_time_pass(self) -> None:
        self._clock.advance(timedelta(seconds=1))

    def settle(self, log: Log, topic: str) -> None:
        """Records are kept as they are written."""

    def forget(self, log: Log, topic: str) -> None:
        assert isinstance(log, KafkaLog)
        name, partitions = self._address.topic(topic), log.topic(topic).partitions
        ends = [TopicPartition(name, number, OFFSET_END) for number in range(partitions)]
        admin = AdminClient({"bootstrap.servers": self._address.servers})
        for deleted in admin.delete_records(ends).values():
            deleted.result()
        log.observe_retention()

    def end_lease(self, consumer: Consumer, survivors: list[Consumer]) -> None:
        for _ in range(2):
            self._clock.advance(LEASE * 0.6)
            for survivor in survivors:
                survivor._membership.keep()

    @contextmanager
    def stalled(self) -> Iterator[None]:
        with self.open()._catalog.write():
            yield

    def close(self) -> None:
        self._opened.close()


class ArchivedImplementation(EmbeddedImplementation):
    """The log in a directory, of which everything that is settled is in an archive only."""

    def settle(self, log: Log, topic: str) -> None:
        assert isinstance(log, EmbeddedLog)
        log.seal(topic)
        log.alter(topic, archive=self._directory.with_name("archive"))
        log._archiver.round()
        with log._catalog.write() as tx:
            tx.execute("UPDATE segments SET local = 0 WHERE object IS NOT NULL")
        for segment in log.segments(topic):
            if segment.object is not None:
                (log.directory / segment.file).unlink(missing_ok=True)
        # What the suite creates has no archive: retention deletes.
        log.alter(topic, archive=None)

    def forget(self, log: Log, topic: str) -> None:
        self.settle(log, topic)
        super().forget(log, topic)
