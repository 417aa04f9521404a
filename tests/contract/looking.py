"""What a test sees of a log, in short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from headwater.log.consumer import Consumer
from headwater.log.port import End, Log, Start
from headwater.log.reading import Batch

AT_ONCE = timedelta(0)
"""For waits that must find what they wait for at once, or not at all."""

SOON = timedelta(seconds=20)
"""For waits for something that another thread is about to do."""

ORDERS = "id bigint, amount int"


def order(number: int, amount: int | None = None) -> dict[str, object]:
    return {"id": number, "amount": amount}


def orders(*numbers: int) -> list[dict[str, object]]:
    return [order(number) for number in numbers]


def values(log: Log, *topics: str, start: Start = "earliest", end: End | None = None) -> list[object]:
    return [record.value for record in log.read(topics, start=start, end=end)]


def numbers(log: Log, *topics: str, start: Start = "earliest", end: End | None = None) -> list[object]:
    """The ids of all records; None for a tombstone."""
    return [value["id"] if isinstance(value, dict) else None for value in values(log, *topics, start=start, end=end)]


def table(log: Log, topic: str) -> dict[object, object]:
    """The amount by id."""
    return {row["id"]: row["amount"] for row in log.table(topic).to_pylist()}


def ids(batch: Batch | None) -> list[int]:
    assert batch is not None
    found: list[int] = batch.records["id"].to_pylist()
    return found


def deliveries(consumer: Consumer) -> Iterator[Batch]:
    """All batches that the consumer gets without waiting."""
    while (batch := consumer.poll(AT_ONCE)) is not None:
        yield batch


def delivered(consumer: Consumer) -> list[int]:
    """The ids of all records that the consumer gets without waiting."""
    return [number for batch in deliveries(consumer) for number in ids(batch)]


def eventually(holds: Callable[[], bool]) -> None:
    """Returns as soon as something holds that nobody tells of."""
    until = time.monotonic() + SOON.total_seconds()
    while not holds():
        assert time.monotonic() < until, "it does not come about"
        time.sleep(0.001)
