"""Topics that are divided by columns which are not their key: equal values in one partition, in order, for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import SchemaError, TopicExists, UsageError
from headwater.log.port import Log
from tests.contract.implementation import Implementation

CLICKS = "user_id bigint, n bigint, url string"


def click(user: int | None, number: int) -> dict[str, object]:
    return {"user_id": user, "n": number, "url": "/"}


def partitions_by(log: Log, topic: str, *columns: str) -> Mapping[tuple[object, ...], set[int]]:
    """In which partitions the records of each value are, as a reader finds them."""
    found: dict[tuple[object, ...], set[int]] = defaultdict(set)
    for record in log.read(topic):
        assert record.value is not None
        found[tuple(record.value[column] for column in columns)].add(record.partition)
    return found


def test_the_topic_is_a_stream_and_says_what_divides_it(log: Log, implementation: Implementation) -> None:
    made = log.create("clicks", CLICKS, partitions=4, partition_by="user_id")
    assert (made.key, made.partition_by, made.partitions) == ((), ("user_id",), 4)
    assert implementation.open().topic("clicks") == made
    with pytest.raises(UsageError):
        log.table("clicks")
    with pytest.raises(UsageError):
        log.delete("clicks", [{"user_id": 1}])


@pytest.mark.parametrize("settled", [False, True])
def test_records_of_one_user_are_in_one_partition_in_the_order_of_their_appends(
    log: Log, implementation: Implementation, settled: bool
) -> None:
    log.create("clicks", CLICKS, partitions=4, partition_by="user_id")
    for number in range(20):
        log.append("clicks", [click(user, number) for user in range(30)])
    if settled:
        implementation.settle(log, "clicks")
    placed = partitions_by(log, "clicks", "user_id")
    assert all(len(places) == 1 for places in placed.values())
    assert {place for places in placed.values() for place in places} == {0, 1, 2, 3}
    for batch in log.batches("clicks"):
        numbers: dict[int, list[int]] = defaultdict(list)
        for row in batch.records.to_pylist():
            numbers[row["user_id"]].append(row["n"])
        assert all(found == sorted(found) for found in numbers.values())


def test_records_without_a_user_stay_together_too(log: Log) -> None:
    log.create("clicks", CLICKS, partitions=8, partition_by="user_id")
    log.append("clicks", [click(None, number) for number in range(5000)])
    assert len(partitions_by(log, "clicks", "user_id")[(None,)]) == 1


def test_several_columns_divide_together_and_their_order_counts_for_nothing_else(log: Log) -> None:
    log.create("clicks", CLICKS, partitions=8, partition_by=["url", "user_id"])
    log.append("clicks", [{"user_id": n % 7, "url": f"/{n % 5}", "n": n} for n in range(350)])
    log.append("clicks", [{"user_id": n % 7, "url": f"/{n % 5}", "n": n} for n in range(350)])
    placed = partitions_by(log, "clicks", "url", "user_id")
    assert len(placed) == 35
    assert all(len(places) == 1 for places in placed.values())


def test_a_widened_column_moves_no_user(log: Log) -> None:
    log.create("clicks", "user_id int, n bigint, url string", partitions=8, partition_by="user_id")
    users = list(range(-50, 50))
    log.append("clicks", [click(user, 1) for user in users])
    log.alter("clicks", schema=CLICKS)
    log.append("clicks", [click(user, 2) for user in users])
    log.alter("clicks", schema="user_id decimal(20,1), n bigint, url string, note string")
    log.append("clicks", [click(user, 3) for user in users])
    assert all(len(places) == 1 for places in partitions_by(log, "clicks", "user_id").values())
    assert log.topic("clicks").partition_by == ("user_id",)


def test_topics_divided_by_columns_of_equal_values_are_divided_alike(log: Log) -> None:
    """So that what belongs together can be joined partition by partition, whatever the types and the keys."""
    log.create("clicks", CLICKS, partitions=4, partition_by="user_id")
    log.create("users", "id decimal(12,2), name string", key="id", partitions=4)
    log.create("carts", "shop int, user_id int, item int", key=["shop", "user_id", "item"], partitions=4,
               partition_by="user_id")  # fmt: skip
    users = range(40)
    log.append("clicks", [click(user, 1) for user in users])
    log.append("users", [{"id": Decimal(user), "name": "x"} for user in users])
    log.append("carts", [{"shop": user % 3, "user_id": user, "item": n} for user in users for n in range(3)])
    clicks, carts = partitions_by(log, "clicks", "user_id"), partitions_by(log, "carts", "user_id")
    assert clicks == carts == partitions_by(log, "users", "id")


def test_a_part_of_the_key_keeps_the_table_right(log: Log) -> None:
    log.create("carts", "user_id bigint, item bigint, amount int", key=["user_id", "item"], partitions=4,
               partition_by="user_id", cleanup="compact")  # fmt: skip
    log.append("carts", [{"user_id": u, "item": i, "amount": 1} for u in range(10) for i in range(3)])
    log.append("carts", [{"user_id": u, "item": i, "amount": 2} for u in range(10) for i in range(2)])
    log.delete("carts", [{"user_id": u, "item": 0} for u in range(10)])
    found = {(row["user_id"], row["item"]): row["amount"] for row in log.table("carts").to_pylist()}
    assert found == {(u, i): {1: 2, 2: 1}[i] for u in range(10) for i in (1, 2)}


def test_a_partition_that_is_named_wins(log: Log) -> None:
    log.create("clicks", CLICKS, partitions=4, partition_by="user_id")
    log.append("clicks", [click(7, n) for n in range(4)], partition=3)
    log.append("clicks", [{**click(7, n), "_partition": n} for n in range(4)])
    assert [record.partition for record in log.read("clicks")].count(3) == 5


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ({"partition_by": "nobody"}, "nobody"),
        ({"partition_by": ["user_id", "user_id"]}, "twice"),
        ({"partition_by": "tags"}, "nested"),
        ({"partition_by": "user_id", "key": "n"}, "two partitions"),
        ({"partition_by": ["n", "user_id"], "key": "n"}, "two partitions"),
        ({"partition_by": "user_id", "cleanup": "compact"}, "without a key"),
    ],
)
def test_a_division_without_meaning_is_refused(log: Log, definition: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        log.create("clicks", CLICKS + ", tags array<int>", **definition)
    assert log.topics() == []


def test_the_division_is_part_of_the_definition(log: Log) -> None:
    made = log.create("clicks", CLICKS, partitions=4, partition_by="user_id")
    assert log.create("clicks", CLICKS, partitions=4, partition_by=["user_id"], exist_ok=True) == made
    for other in (None, "n", ["user_id", "n"]):
        with pytest.raises(TopicExists):
            log.create("clicks", CLICKS, partitions=4, partition_by=other, exist_ok=True)


def test_dividing_by_the_key_says_nothing_new(log: Log) -> None:
    made = log.create("orders", "id bigint, amount int", key="id")
    assert log.create("orders", "id bigint, amount int", key="id", partition_by="id", exist_ok=True) == made
    assert made.partition_by == ()


def test_partitions_cannot_be_added_nor_the_column_dropped(log: Log) -> None:
    before = log.create("clicks", CLICKS, partitions=4, partition_by="user_id")
    with pytest.raises(UsageError, match="partitioned by user_id"):
        log.alter("clicks", partitions=8)
    with pytest.raises(SchemaError):
        log.alter("clicks", schema="n bigint, url string")
    assert log.topic("clicks") == before


def test_producers_and_commits_divide_alike(log: Log) -> None:
    log.create("clicks", CLICKS, partitions=8, partition_by="user_id")
    with log.producer("clicks") as producer:
        for number in range(100):
            producer.send(click(number % 10, number))
    with log.commit() as commit:
        commit.append("clicks", [click(number % 10, number) for number in range(100)])
    assert all(len(places) == 1 for places in partitions_by(log, "clicks", "user_id").values())


USERS = st.none() | st.text(max_size=3) | st.sampled_from(["a", "b", "ab"])
SENDS = st.lists(st.lists(st.tuples(USERS, st.integers(0, 2)), max_size=6), max_size=8)


@pytest.mark.long_on_kafka
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(sends=SENDS)
def test_whatever_is_sent_each_user_reads_as_one_ordered_list(log: Log, sends: list[list[tuple[Any, int]]]) -> None:
    """Against a model that knows no partitions: what was sent for a user, in the order in which it was sent."""
    name = f"clicks-{len(log.topics())}"
    log.create(name, "user string, shop bigint, n bigint", partitions=5, partition_by=["user", "shop"])
    model: dict[tuple[Any, int], list[int]] = defaultdict(list)
    for number, sent in enumerate(sends):
        log.append(name, [{"user": user, "shop": shop, "n": number} for user, shop in sent])
        for user, shop in sent:
            model[user, shop].append(number)
    found: dict[tuple[Any, int], list[tuple[int, list[int]]]] = defaultdict(list)
    for partition in range(5):
        numbers: dict[tuple[Any, int], list[int]] = defaultdict(list)
        for batch in log.batches(name, partition=partition):
            for row in batch.records.to_pylist():
                numbers[row["user"], row["shop"]].append(row["n"])
        for user_shop, of_one in numbers.items():
            found[user_shop].append((partition, of_one))
    assert all(len(parts) == 1 for parts in found.values())
    assert {place: parts[0][1] for place, parts in found.items()} == model
