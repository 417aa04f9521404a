"""The transactions of one open log: records of any topics that become visible together, or never."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from headwater.errors import LogUnavailable
from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.cluster import settings_of

TRANSACTION_SECONDS_MAX = 20
"""After this time Kafka aborts a transaction: a dead process holds up other writers until then."""
ANSWER_SECONDS_MAX = 30.0
MESSAGE_BYTES_MAX = 1_000_000
_UNKNOWN = (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001 (these are their names)

Message = tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]] | None]
"""A key, a value and headers."""


class Transactions:
    """One transaction at a time, under one lock. After an error the next `begin` starts with a new connection.

    The new connection has the same transactional id: Kafka aborts or finishes what the old one left open.
    """

    def __init__(self, address: KafkaAddress) -> None:
        self._address, self._id = address, f"{address.catalog}-{uuid.uuid4().hex}"
        self._producer: Producer | None = None
        self._errors: list[str] = []

    def begin(self) -> None:
        """Begins a transaction."""
        self._errors.clear()
        producer = self._connected()
        self._call(producer.begin_transaction)

    def send(self, topic: str, partition: int, messages: Sequence[Message]) -> list[int]:
        """Writes messages to a partition; the offset of each, once all are durable."""
        producer, offsets = self._connected(), list[int]()
        errors = self._errors

        def delivered(error: object, message: Any) -> None:
            if error is not None:
                errors.append(str(error))
            else:
                offsets.append(message.offset())

        def send(message: Message) -> None:
            key, value, headers = message
            producer.produce(topic, value, key, partition, delivered, headers=headers)

        for message in messages:
            try:
                send(message)
            except (BufferError, KafkaException) as error:
                self._send_again(producer, topic, partial(send, message), error)
        left = producer.flush(TRANSACTION_SECONDS_MAX)
        if left or errors:
            reason = errors[0] if errors else "it does not take the records in time"
            raise LogUnavailable(self._address.url, reason)
        return offsets

    def _send_again(
        self, producer: Producer, topic: str, send: Callable[[], None], error: BufferError | KafkaException
    ) -> None:
        """Hands over a message that the client has refused: it has no room, or does not know the partition yet."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            if isinstance(error, BufferError):
                producer.poll(0.1)
            elif error.args[0].code() not in _UNKNOWN or time.monotonic() > deadline:
                raise self._unavailable(error) from error
            else:
                # It may have been made a moment ago: this asks the brokers again.
                self._call(partial(producer.list_topics, topic, timeout=ANSWER_SECONDS_MAX))
            try:
                return send()
            except (BufferError, KafkaException) as again:
                error = again

    def commit(self) -> None:
        """Commits. Raises `LogUnavailable` if it is not known whether that happened; `settle` finds out."""
        producer = self._connected()
        self._call(lambda: producer.commit_transaction(ANSWER_SECONDS_MAX))

    def abort(self) -> None:
        """What was written since `begin` never becomes visible."""
        if self._producer is None:
            return
        try:
            self._producer.abort_transaction(ANSWER_SECONDS_MAX)
        except KafkaException:
            self.drop()

    def settle(self) -> None:
        """After an error: returns when the last transaction was committed or aborted."""
        self.drop()
        self._connected()

    def drop(self) -> None:
        """Gives up the connection, with what is under way."""
        if self._producer is not None:
            self._producer.purge(in_queue=True, in_flight=True)
            self._producer = None

    def _connected(self) -> Producer:
        if self._producer is None:
            producer = Producer(
                settings_of(
                    self._address,
                    **{
                        "transactional.id": self._id,
                        "transaction.timeout.ms": TRANSACTION_SECONDS_MAX * 1000,
                        "linger.ms": 0,
                        "queue.buffering.max.messages": 1_000_000,
                        "compression.type": "lz4",
                    },
                )
            )
            # With a connection that stands the client finds its coordinator at once, and not after half a second.
            self._call(lambda: producer.list_topics(self._address.turns, timeout=ANSWER_SECONDS_MAX))
            self._call(lambda: producer.init_transactions(ANSWER_SECONDS_MAX))
            self._producer = producer
        return self._producer

    def _call(self, step: Callable[[], object]) -> None:
        try:
            step()
        except KafkaException as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: KafkaException) -> LogUnavailable:
        return LogUnavailable(self._address.url, str(error.args[0].str()))
