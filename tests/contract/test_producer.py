"""The producer: a future for every record, and a named answer when it is ahead of the disk."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest

from headwater.errors import BufferFull, Fenced, HeadwaterError, InvalidRecords, UnknownTopic, UsageError
from headwater.log.commit import AppendPosition
from headwater.log.options import Policy
from headwater.log.port import Log
from headwater.log.producer import Producer
from headwater.model.position import Position
from tests.contract.implementation import Implementation
from tests.contract.looking import ORDERS, SOON, eventually, numbers, order

WAIT = SOON.total_seconds()


@pytest.fixture(autouse=True)
def topics(log: Log) -> None:
    log.create("orders", ORDERS)
    log.create("payments", ORDERS, key="id", partitions=2)


def error_of(sent: Future[Position]) -> type[BaseException] | None:
    error = sent.exception(WAIT)
    return None if error is None else type(error)


def fill(producer: Producer, first: int = 1) -> Future[Position]:
    """Sends one record that is on its way to the disk, and does not get there, when this returns."""
    sent = producer.send(order(first))
    eventually(lambda: producer._outbox.flying == 1)
    return sent


def test_a_future_resolves_when_its_record_is_durable(log: Log, implementation: Implementation) -> None:
    other = implementation.open()
    with log.producer("orders") as producer:
        position = producer.send(order(1)).result(WAIT)
        assert other.position() >= position
        [record] = other.read("orders")
        assert record.position == position
        assert record.value == order(1)


def test_records_keep_the_order_in_which_they_were_sent(log: Log) -> None:
    with log.producer("orders") as producer:
        sent = [producer.send(order(number)) for number in range(500)]
    positions = [one.result(WAIT) for one in sent]
    assert positions == sorted(positions)
    assert numbers(log, "orders") == list(range(500))
    stats = producer.stats()
    assert (stats.sent, stats.acknowledged, stats.failed, stats.dropped, stats.waiting) == (500, 500, 0, 0, 0)


def test_sends_that_wait_share_a_commit(log: Log, implementation: Implementation) -> None:
    with log.producer("orders") as producer:
        with implementation.stalled():
            first = fill(producer)
            sent = [producer.send(order(number)) for number in range(2, 200)]
            assert not any(one.done() for one in [first, *sent])
        assert len({one.result(WAIT) for one in sent}) == 1
    assert numbers(log, "orders") == list(range(1, 200))


def test_one_producer_sends_to_many_topics(log: Log) -> None:
    with log.producer() as producer:
        producer.send(order(1), topic="orders")
        producer.send(order(2), topic="payments")
        with pytest.raises(UsageError):
            producer.send(order(3))
    assert (numbers(log, "orders"), numbers(log, "payments")) == ([1], [2])


def test_a_record_that_does_not_fit_fails_alone(log: Log, implementation: Implementation) -> None:
    with log.producer("payments") as producer:
        with implementation.stalled():
            fill(producer, 0)
            sent = [producer.send(row) for row in (order(1), {"id": "x"}, order(2), {}, order(3))]
            lost = producer.send(order(4), topic="none")
        assert [error_of(one) for one in sent] == [None, InvalidRecords, None, InvalidRecords, None]
        assert error_of(lost) is UnknownTopic
        error = sent[3].exception()
        assert isinstance(error, InvalidRecords)
        assert error.rejected[0].field == "id"
        stats = producer.stats()
        assert (stats.sent, stats.acknowledged, stats.failed) == (7, 4, 3)
    assert sorted(map(str, numbers(log, "payments"))) == ["0", "1", "2", "3"]


def test_a_record_that_does_not_fit_goes_to_the_dead_letters(log: Log) -> None:
    log.alter("orders", dead_letter="rejected")
    with log.producer("orders") as producer:
        sent = [producer.send(row) for row in (order(1), {"id": "x"}, order(2))]
        assert [error_of(one) for one in sent] == [None, None, None]
        told = [position for position in (one.result() for one in sent) if isinstance(position, AppendPosition)]
        assert [[(one.index, one.original) for one in each.rejected] for each in told] == [[(0, b'{"id": "x"}')]]
        assert sent[1].result() == sent[0].result() == sent[2].result()
        stats = producer.stats()
        assert (stats.sent, stats.acknowledged, stats.rejected, stats.failed) == (3, 3, 1, 0)
    assert numbers(log, "orders") == [1, 2]
    assert log.scan("rejected")["original"].to_pylist() == [b'{"id": "x"}']


def test_flush_returns_when_all_is_durable(log: Log) -> None:
    with log.producer("orders", linger=timedelta(hours=1)) as producer:
        sent = [producer.send(order(number)) for number in range(10)]
        assert not any(one.done() for one in sent)
        producer.flush()
        assert all(one.done() for one in sent)
        assert numbers(log, "orders") == list(range(10))


def test_a_closed_producer_has_flushed_and_takes_no_more(log: Log) -> None:
    producer = log.producer("orders", linger=timedelta(hours=1))
    sent = producer.send(order(1))
    producer.close()
    assert sent.done()
    with pytest.raises(UsageError):
        producer.send(order(2))
    producer.close()
    assert numbers(log, "orders") == [1]


def test_block_lets_the_sender_wait(log: Log, implementation: Implementation) -> None:
    with log.producer("orders", buffer_records_max=2) as producer, ThreadPoolExecutor(1) as pool:
        with implementation.stalled():
            fill(producer)
            producer.send(order(2))
            blocked = pool.submit(producer.send, order(3))
            eventually(blocked.running)
            assert producer.stats().waiting == 2
            assert not blocked.done()
        blocked.result(WAIT).result(WAIT)
    assert numbers(log, "orders") == [1, 2, 3]
    assert producer.stats().dropped == 0


def test_error_refuses_the_record(log: Log, implementation: Implementation) -> None:
    with log.producer("orders", buffer_records_max=2, policy="error") as producer:
        with implementation.stalled():
            fill(producer)
            producer.send(order(2))
            with pytest.raises(BufferFull) as error:
                producer.send(order(3))
            assert (error.value.records_max, error.value.policy) == (2, "error")
        producer.flush()
        producer.send(order(4))
    assert numbers(log, "orders") == [1, 2, 4]


@pytest.mark.parametrize(("policy", "kept"), [("drop_newest", [1, 2, 3]), ("drop_oldest", [1, 5, 6])])
def test_drops_are_counted_and_told(log: Log, implementation: Implementation, policy: Policy, kept: list[int]) -> None:
    with log.producer("orders", buffer_records_max=3, policy=policy) as producer:
        with implementation.stalled():
            sent = [fill(producer), *(producer.send(order(number)) for number in range(2, 7))]
            assert producer.stats().dropped == 3
        producer.flush()
        assert [error_of(one) is None for one in sent] == [number in kept for number in range(1, 7)]
        assert {error_of(one) for one in sent} == {None, BufferFull}
        stats = producer.stats()
        assert (stats.sent, stats.acknowledged, stats.dropped, stats.waiting) == (6, 3, 3, 0)
    assert numbers(log, "orders") == kept


def test_a_policy_or_buffer_that_is_none_is_refused(log: Log) -> None:
    with pytest.raises(UsageError):
        log.producer("orders", policy="hope")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        log.producer("orders", buffer_records_max=0)


def test_a_named_producer_is_fenced_by_the_next_of_its_name(log: Log, implementation: Implementation) -> None:
    with log.producer("orders", name="import") as old:
        old.send(order(1)).result(WAIT)
        with implementation.open().producer("orders", name="import") as new:
            refused = old.send(order(2))
            assert error_of(refused) is Fenced
            new.send(order(3)).result(WAIT)
        assert error_of(old.send(order(4))) is Fenced
        assert old.stats().failed == 2
    assert numbers(log, "orders") == [1, 3]


def test_many_threads_send(log: Log) -> None:
    with log.producer("payments", buffer_records_max=16) as producer, ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda number: producer.send(order(number)), range(400)))
        for one in sent:
            one.result(WAIT)
    assert sorted(log.scan("payments")["id"].to_pylist()) == list(range(400))


def test_what_a_future_carries_is_always_an_error_of_the_log(log: Log) -> None:
    with log.producer("orders") as producer:
        log.drop("orders")
        assert isinstance(producer.send(order(1)).exception(WAIT), HeadwaterError)
