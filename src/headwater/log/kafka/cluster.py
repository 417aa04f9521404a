"""What a log asks of the cluster beside records: topics, their settings, and how far they reach."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from headwater.errors import LogUnavailable, UsageError
from headwater.log.kafka.address import KafkaAddress

ANSWER_SECONDS_MAX = 30.0
"""How long the cluster may take to answer."""
PAUSE_SECONDS = 0.05
STARTING = frozenset(
    {KafkaError._UNKNOWN_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION}  # noqa: SLF001
)
"""What is wrong with a partition whose broker has just started; it soon is not."""
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def settings_of(address: KafkaAddress, **settings: object) -> dict[str, Any]:
    """The settings of a Kafka client. Its own log is off: what matters is raised."""
    return {"bootstrap.servers": address.servers, "log_level": 0, "socket.keepalive.enable": True, **settings}


@contextmanager
def asking(address: KafkaAddress) -> Iterator[None]:
    """Raises `LogUnavailable` for an error of the cluster within the block."""
    try:
        yield
    except KafkaException as error:
        raise LogUnavailable(address.url, str(error.args[0].str())) from error


class Cluster:
    """The administration of one cluster. Every method may be called from any thread, and raises `LogUnavailable`."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._admin = AdminClient(settings_of(address))

    def identity(self, topic: str) -> str | None:
        """Tells a topic from a later one of the same name; None if there is none."""
        try:
            with asking(self._address):
                found = self._result(self._admin.describe_topics(TopicCollection([topic]))[topic])
        except LogUnavailable as error:
            if _code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise
        return str(found.topic_id)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0 if there is none."""
        with asking(self._address):
            found = self._admin.list_topics(topic, timeout=ANSWER_SECONDS_MAX).topics[topic]
        return 0 if found.error is not None else len(found.partitions)

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> bool:
        """Creates a topic, and returns when it can be used; False if there is one already."""
        with asking(self._address):
            wanted = NewTopic(topic, partitions, replication_factor=-1, config=dict(settings))
            made = self._attempt(lambda: self._admin.create_topics([wanted])[topic], KafkaError.TOPIC_ALREADY_EXISTS)
            self._await(lambda: self.partitions(topic) > 0)
        return made

    def delete(self, topic: str) -> None:
        """Deletes a topic, if there is one, and returns when it is gone."""
        with asking(self._address):
            self._attempt(lambda: self._admin.delete_topics([topic])[topic], KafkaError.UNKNOWN_TOPIC_OR_PART)
            self._await(lambda: self.partitions(topic) == 0)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Adds partitions up to a number, and returns when they can be used."""
        if self.partitions(topic) >= partitions:
            return
        with asking(self._address):
            self._result(self._admin.create_partitions([NewPartitions(topic, partitions)])[topic])
            self._await(lambda: self.partitions(topic) >= partitions)

    def alter(self, topic: str, settings: Mapping[str, str]) -> None:
        """Changes settings of a topic."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        with asking(self._address):
            self._result(self._admin.incremental_alter_configs([resource])[resource])

    def first_offsets(self, topic: str, partitions: int) -> list[int]:
        """The first offset that each partition still has."""
        return self._offsets(topic, partitions, _EARLIEST)

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """One past the last record of each partition that belongs to a transaction that was committed."""
        return self._offsets(topic, partitions, _LATEST)

    def delete_group(self, group: str) -> None:
        """Deletes what Kafka knows of a group, if it knows it."""
        with asking(self._address):
            self._attempt(lambda: self._admin.delete_consumer_groups([group])[group], KafkaError.GROUP_ID_NOT_FOUND)

    def set_group_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Moves the offsets of a group that has no members in Kafka."""
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        with asking(self._address):
            [future] = self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)]).values()
            self._result(future)

    def _offsets(self, topic: str, partitions: int, spec: OffsetSpec) -> list[int]:
        wanted = {TopicPartition(topic, number): spec for number in range(partitions)}
        with asking(self._address):
            found = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
            answers = {place.partition: self._result(future).offset for place, future in found.items()}
        return [answers[number] for number in range(partitions)]

    def _attempt(self, ask: Callable[[], Any], harmless: int) -> bool:
        """Asks for a change; False if it was made before."""
        try:
            self._result(ask())
        except KafkaException as error:
            if error.args[0].code() == harmless:
                return False
            if error.args[0].code() in (KafkaError.INVALID_CONFIG, KafkaError.INVALID_PARTITIONS):
                raise UsageError(f"Kafka refuses the topic: {error.args[0].str()}.") from error
            raise
        return True

    @staticmethod
    def _result(future: Any) -> Any:
        return future.result(ANSWER_SECONDS_MAX)

    def _await(self, holds: Callable[[], bool]) -> None:
        """Returns when what was asked for has reached the broker that answers."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while not holds():
            if time.monotonic() > deadline:
                raise LogUnavailable(self._address.url, "a change of a topic does not become visible")
            time.sleep(PAUSE_SECONDS)


def _code(error: LogUnavailable) -> int | None:
    cause = error.__cause__
    return cause.args[0].code() if isinstance(cause, KafkaException) else None
