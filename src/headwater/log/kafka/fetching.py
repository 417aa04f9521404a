"""Fetching messages: a few connections that read partitions one after the other, and remember where they are."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headwater.errors import LogUnavailable
from headwater.log.kafka.address import KafkaAddress
from headwater.log.kafka.cluster import settings_of

IDLE_MAX = 8
"""How many connections wait for the next read, each where its last one ended."""
FETCH_SECONDS_MAX = 60.0
"""Without a message for this time, the log is unavailable."""
LOOK_SECONDS = 0.2
FETCH_WAIT_MS = 10
"""A connection that turns to another place waits for the broker's last answer first."""


class Fetcher:
    """One connection. Not safe for use by several threads at once."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self.place: tuple[str, int, int] | None = None
        """The topic, the partition and the offset of the message that comes next."""
        self._consumer = Consumer(
            settings_of(
                address,
                **{
                    "group.id": f"{address.catalog}-reader",
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",
                    "fetch.wait.max.ms": FETCH_WAIT_MS,
                    "fetch.error.backoff.ms": 20,
                    "queued.max.messages.kbytes": 65536,
                    "check.crcs": True,
                },
            )
        )

    def fetch(
        self, topic: str, partition: int, first: int, end: int, records_max: int, *, more: bool
    ) -> list[Any] | None:
        """Messages from an offset up to an end, up to a number; fewer where some were deleted by compaction.

        Waits until they are visible. `more`: whether the next read is likely to continue there.
        None if the first was deleted by retention. Raises `LogUnavailable`.
        """
        known, self.place = self.place, None
        if known != (topic, partition, first):
            self._consumer.assign([TopicPartition(topic, partition, first)])
        found: list[Any] = []
        reached, heard = first, time.monotonic()
        while reached < end and len(found) < records_max:
            messages = self._consumer.consume(min(records_max - len(found), end - reached), LOOK_SECONDS)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > FETCH_SECONDS_MAX:
                raise LogUnavailable(self._address.url, f"topic {topic!r}, partition {partition}, cannot be read")
            for message in messages:
                offset = message.offset() or 0
                if message.error() is not None:
                    past = self._past(message)
                    if past is None:
                        return None
                    reached = max(reached, past)
                elif offset < end:
                    found.append(message)
                    reached = offset + 1
                else:
                    # It is behind the end, and would be missing when reading continues.
                    return found
        if more:
            self.place = (topic, partition, reached)
        else:
            self._consumer.unassign()
        return found

    def close(self) -> None:
        """Ends the connection."""
        self._consumer.close()

    def _past(self, message: Any) -> int | None:
        """Up to where nothing more comes, if that is what an error says; None if the offset is out of range."""
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (that is its name)
            return int(message.offset())
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):  # noqa: SLF001
            return None
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED) or error.fatal():
            raise LogUnavailable(self._address.url, str(error.str())) from KafkaException(error)
        return 0


class Fetchers:
    """The connections of one open log."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._idle: list[Fetcher] = []
        self._lock = threading.Lock()
        self._closed = False

    def fetch(
        self, topic: str, partition: int, first: int, end: int, records_max: int, *, more: bool
    ) -> list[Any] | None:
        """See `Fetcher.fetch`; any thread may call it."""
        fetcher = self._take((topic, partition, first))
        try:
            return fetcher.fetch(topic, partition, first, end, records_max, more=more)
        finally:
            self._give_back(fetcher)

    def close(self) -> None:
        """Ends the connections that are not in use."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for fetcher in idle:
            fetcher.close()

    def _take(self, place: tuple[str, int, int]) -> Fetcher:
        with self._lock:
            there = next((one for one in self._idle if one.place == place), None)
            if there is None and len(self._idle) == IDLE_MAX:
                there = self._idle[0]
            if there is not None:
                self._idle.remove(there)
                return there
        return Fetcher(self._address)

    def _give_back(self, fetcher: Fetcher) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_MAX:
                self._idle.append(fetcher)
                return
        fetcher.close()
