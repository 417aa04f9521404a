"""The log on Kafka: the same port, with records in Kafka's topics and the catalog in one of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import pyarrow as pa

from headwater.errors import UsageError
from headwater.log.cataloged import CatalogedLog
from headwater.log.commit import Committed, Request
from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.catalog import KafkaCatalog
from headwater.log.kafka.cluster import Cluster
from headwater.log.kafka.cutting import KafkaCutter
from headwater.log.kafka.fetching import Fetchers
from headwater.log.kafka.offsets import GroupOffsets
from headwater.log.kafka.reader import KafkaReader
from headwater.log.kafka.retention import Retention
from headwater.log.kafka.settings import check_settings, kafka_settings, with_views
from headwater.log.kafka.tails import KafkaTails
from headwater.log.kafka.transactions import Transactions
from headwater.log.options import TopicOptions, settings_of
from headwater.log.topic import Topic, TopicSettings, define_topic
from headwater.system.clock import Clock

CATALOG_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
TURN_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "3600000"}


class SharedClock(Clock):
    """Leases by wall time: a group's members may be on different machines, whose clocks have to agree roughly."""

    def monotonic(self) -> float:
        return self.now() / 1e6

    def boot(self) -> str:
        return "kafka"


class KafkaLog(CatalogedLog):
    """See `Log` for the contract.

    Not to be used in a child process after a fork: open it again there. It can be pickled; it is opened again then.
    """

    _catalog: KafkaCatalog

    def __init__(
        self, address: str | KafkaAddress, *, create: bool = True, upkeep: bool = True, clock: Clock | None = None
    ) -> None:
        self._address = address if isinstance(address, KafkaAddress) else KafkaAddress.parse(address)
        self._options = {"upkeep": upkeep}
        self._cluster = Cluster(self._address)
        identity = self._identity(create=create)
        transactions = Transactions(self._address)
        catalog = KafkaCatalog(self._address, identity, transactions, clock := clock or SharedClock())
        tails = KafkaTails(self._address, transactions)
        catalog.summary = tails.summary
        self._fetchers = Fetchers(self._address)
        self._retention = Retention(self._address, self._cluster, catalog, self.topics)
        self._offsets = GroupOffsets(self._address, self._cluster, catalog)
        self._assemble(catalog, tails, catalog, clock)
        if upkeep:
            self._retention.start()

    def create(
        self,
        name: str,
        schema: str | pa.Schema,
        *,
        key: str | Sequence[str] | None = None,
        partitions: int = 1,
        partition_by: str | Sequence[str] | None = None,
        event_time: str | None = None,
        exist_ok: bool = False,
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        self._check_open()
        chosen = TopicSettings(**with_views(settings_of(settings)))
        check_settings(chosen)
        topic = define_topic(
            name, schema, key=key, partitions=partitions, partition_by=partition_by, event_time=event_time,
            settings=chosen,
        )  # fmt: skip
        known = {found.name for found in self.topics()}
        if name not in known:
            self._provide(topic)
            self._provide_dead_letter(chosen, known)
        return self._registry.create(topic, exist_ok=exist_ok)

    def alter(
        self,
        name: str,
        *,
        schema: str | pa.Schema | None = None,
        partitions: int | None = None,
        **settings: Unpack[TopicOptions],
    ) -> Topic:
        self._check_open()
        before, chosen = self.topic(name), settings_of(settings)
        with_views(chosen)
        changed = replace(before.settings, **chosen).check(key=before.key)
        check_settings(changed)
        self._provide_dead_letter(changed, {found.name for found in self.topics()})
        topic = self._registry.alter(name, schema=schema, partitions=partitions, settings=chosen)
        # More partitions in Kafka than in the catalog would be found by nobody; fewer are made up for here.
        self._cluster.add_partitions(self._address.topic(name), topic.partitions)
        if chosen:
            self._cluster.alter(self._address.topic(name), kafka_settings(topic))
        return topic

    def drop(self, name: str) -> None:
        self._check_open()
        self._registry.drop(name)
        self._cluster.delete(self._address.topic(name))

    def delete_group(self, group: str, *, force: bool = False) -> None:
        super().delete_group(group, force=force)
        self._cluster.delete_group(group)

    def cutter(self, topics: Sequence[str]) -> KafkaCutter:
        return KafkaCutter(self._catalog, lambda: [self.topic(name) for name in topics])

    @property
    def url(self) -> str:
        return self._address.url

    @property
    def state_directory(self) -> Path:
        directory = self._address.state.absolute()
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    @property
    def upkeep_failure(self) -> Exception | None:
        return self._retention.failure

    @property
    def upkeep_failures(self) -> int:
        return self._retention.failures

    def observe_retention(self) -> None:
        """Looks at what Kafka has deleted, now rather than in the background."""
        self._check_open()
        self._retention.observe_all()

    def close(self) -> None:
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self._dispatcher.close()
        self._retention.close()
        self._offsets.close()
        self._fetchers.close()
        self._catalog.close()

    def __repr__(self) -> str:
        return f"KafkaLog({self.url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self._address,)

    def _submit(self, request: Request) -> Committed:
        committed = super()._submit(request)
        if request.offsets and not committed.duplicate:
            self._offsets.publish(request.offsets)
        return committed

    def _reader(self, topic: Topic, partition: int, columns: Sequence[str] | None = None) -> KafkaReader:
        return KafkaReader(
            self._address, self._catalog, self._fetchers, self._known_topic, self._retention.observe, topic, partition,
            columns,
        )  # fmt: skip

    def _known_topic(self, name: str) -> Topic:
        """A topic, as far as this process knows already."""
        with self._catalog.look():
            return self._registry.topic(name)

    def _identity(self, *, create: bool) -> str:
        """Which log it is; it is created if it may be. Raises `UsageError` if there is none."""
        found = self._cluster.identity(self._address.catalog)
        if found is None and create:
            # In this order: where there is a catalog, there are tickets.
            self._cluster.create(self._address.turns, 1, TURN_SETTINGS)
            self._cluster.create(self._address.catalog, 1, CATALOG_SETTINGS)
            found = self._cluster.identity(self._address.catalog)
        if found is None:
            raise UsageError(
                f"There is no log at {self._address.url} yet.", hint="Start the application with `headwater run`."
            )
        return found

    def _provide(self, topic: Topic) -> None:
        """Sees that there is an empty Kafka topic. Raises `UsageError` if there is one with records of others."""
        name = self._address.topic(topic.name)
        if name in (self._address.catalog, self._address.turns):
            raise UsageError(f"Topic {topic.name!r} belongs to the log itself.", hint="Use another name.")
        if self._cluster.create(name, topic.partitions, kafka_settings(topic)):
            return
        with self._catalog.read() as tx:
            dropped = tx.execute("SELECT 1 FROM dropped WHERE name = ?", (topic.name,)).fetchone() is not None
        found = self._cluster.partitions(name)
        if dropped or (found != topic.partitions and not any(self._cluster.end_offsets(name, found))):
            # What a process left behind that was killed while it dropped or created the topic.
            self._cluster.delete(name)
            self._cluster.create(name, topic.partitions, kafka_settings(topic))
        elif any(self._cluster.end_offsets(name, found)):
            raise UsageError(
                f"Kafka has a topic {name!r} already, with records that this log did not write.",
                hint="Use another name, or delete that topic if it is no longer needed.",
            )

    def _provide_dead_letter(self, settings: TopicSettings, known: set[str]) -> None:
        name = settings.dead_letter
        if name is not None and name not in known:
            self._provide(Topic(0, name, (pa.schema([]),), (), 1, None, TopicSettings()))


def _reopen(address: KafkaAddress) -> KafkaLog:
    return KafkaLog(address, create=False, upkeep=False)


def open_kafka(url: str, base: Path, *, create: bool, upkeep: bool) -> KafkaLog:
    """Opens the log at a `kafka:` URL; a relative state directory is relative to `base`."""
    address = KafkaAddress.parse(url)
    return KafkaLog(replace(address, state=base / address.state), create=create, upkeep=upkeep)
