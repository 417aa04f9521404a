"""Topics: created, altered and dropped, with names that stay in their folder and schemas that evolve."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import InvalidName, SchemaError, TopicExists, UnknownTopic, UsageError
from headwater.log.port import Log
from tests.contract.implementation import LEASE, Implementation
from tests.contract.looking import AT_ONCE, ORDERS, numbers, order, orders, values

BAD_NAMES = ["", ".", "..", "../a", "a/b", "/a", "a\\b", "a\0b", "a\n", ".a", "-a", "a b", "a*", "ä", "x" * 201]
EVERY_TYPE = (
    "tiny tinyint, small smallint, whole int, big bigint, single float, twofold double, price decimal(12,2), "
    "name string, raw binary, good boolean, day date, at timestamp, local timestamp_ntz, "
    "list array<int>, place struct<x: int, y: string>, counts map<string, int>"
)
FULL_ROW: dict[str, object] = {
    "tiny": -128, "small": 32767, "whole": -5, "big": 2**63 - 1, "single": 0.5, "twofold": 0.1,
    "price": Decimal("9.50"), "name": "Ünïcødé 🌊", "raw": b"\x00\xff", "good": True, "day": date(2026, 2, 3),
    "at": datetime(2026, 1, 1, 10, tzinfo=UTC), "local": datetime(2026, 1, 1, 10),  # noqa: DTZ001 (it is the type without a zone)
    "list": [1, None, 3],
    "place": {"x": 1, "y": None}, "counts": [("a", 1), ("b", None)],
}  # fmt: skip


def test_a_new_topic_is_as_defined_and_seen_by_every_handle(log: Log, implementation: Implementation) -> None:
    other = implementation.open()
    made = log.create("orders", "id bigint, at timestamp", key="id", partitions=4, event_time="at", cleanup="compact")
    assert (made.name, made.key, made.partitions, made.event_time) == ("orders", ("id",), 4, "at")
    assert made.schema == pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    assert made.settings.cleanup == "compact"
    assert other.topic("orders") == made
    assert other.topics() == [made]


def test_topics_are_listed_by_name(log: Log) -> None:
    for name in ["b", "c", "a"]:
        log.create(name, ORDERS)
    assert [topic.name for topic in log.topics()] == ["a", "b", "c"]


def test_a_schema_may_be_given_in_arrow(log: Log) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())])
    assert log.create("people", schema, key=["id", "name"]).schema == schema
    assert log.topic("people").key == ("id", "name")


def test_creating_twice_needs_leave_and_the_same_definition(log: Log) -> None:
    made = log.create("orders", ORDERS, key="id")
    with pytest.raises(TopicExists):
        log.create("orders", ORDERS, key="id")
    assert log.create("orders", ORDERS, key="id", exist_ok=True) == made
    with pytest.raises(TopicExists) as error:
        log.create("orders", ORDERS, exist_ok=True)
    assert error.value.name == "orders"
    with pytest.raises(TopicExists):
        log.create("orders", ORDERS, key="id", partitions=2, exist_ok=True)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_could_leave_its_folder_is_refused(log: Log, name: str) -> None:
    for attempt in (
        lambda: log.create(name, ORDERS),
        lambda: log.create("orders", ORDERS, dead_letter=name),
        lambda: log.producer(name=name),
        lambda: log.commit().bookmark(name, 1),
    ):
        with pytest.raises(InvalidName):
            attempt()
    assert log.topics() == []


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_of_a_group_or_member_is_refused(log: Log, name: str) -> None:
    log.create("orders", ORDERS)
    with pytest.raises(InvalidName):
        log.consumer("orders", group=name)
    with pytest.raises(InvalidName):
        log.consumer("orders", group="billing", member=name)
    assert log.groups() == []


@pytest.mark.parametrize("name", ["a", "A.b_c-1", "0", "x" * 200, "orders..2026"])
def test_a_plain_name_is_taken(log: Log, name: str) -> None:
    log.create(name, ORDERS)
    log.append(name, orders(1))
    assert numbers(log, name) == [1]


@pytest.mark.parametrize(
    "definition",
    [
        {"schema": "id nothing"},
        {"schema": ""},
        {"schema": "id int, ID int"},
        {"schema": "_offset bigint"},
        {"key": "missing"},
        {"key": ["id", "id"]},
        {"schema": "id array<int>", "key": "id"},
        {"event_time": "id"},
        {"event_time": "missing"},
        {"partitions": 0},
        {"partitions": 1_000_000},
        {"cleanup": "compact"},
        {"cleanup": "sometimes"},
        {"cleanup": "none", "retention_bytes": 1},
        {"retention_bytes": 0},
        {"retention_age": timedelta(seconds=-1)},
        {"segment_bytes_max": 0},
        {"dead_letter": "orders"},
    ],
)
def test_a_definition_without_meaning_is_refused(log: Log, definition: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        log.create("orders", **{"schema": ORDERS, **definition})
    assert log.topics() == []


@pytest.mark.parametrize("settled", [False, True])
def test_every_type_comes_back_as_it_was_given(log: Log, implementation: Implementation, settled: bool) -> None:
    log.create("things", EVERY_TYPE)
    empty = dict.fromkeys(FULL_ROW)
    log.append("things", [{**FULL_ROW, "counts": dict(FULL_ROW["counts"])}, {}])  # type: ignore[call-overload]
    if settled:
        implementation.settle(log, "things")
    assert values(log, "things") == [FULL_ROW, empty]
    assert log.scan("things").select(list(FULL_ROW)).to_pylist() == [FULL_ROW, empty]
    assert log.scan("things").select(list(FULL_ROW)).schema == log.topic("things").schema


@pytest.mark.parametrize("settled", [False, True])
def test_older_records_read_with_the_newer_schema(log: Log, implementation: Implementation, settled: bool) -> None:
    log.create("orders", "id int, amount decimal(5,2), place struct<x: int>", key="id", partitions=2)
    log.append("orders", [{"id": n, "amount": "1.50", "place": {"x": n}} for n in range(4)])
    if settled:
        implementation.settle(log, "orders")
    changed = "note string, id bigint, amount decimal(9,3), place struct<x: bigint, y: string>"
    topic = log.alter("orders", schema=changed)
    assert topic.schema_version == 1
    log.append("orders", [{"id": n, "amount": "2.125", "place": {"x": 2**40, "y": "z"}, "note": "new"} for n in (4, 5)])
    if settled:
        implementation.settle(log, "orders")

    def row(number: int) -> dict[str, object]:
        if number < 4:
            return {"note": None, "id": number, "amount": Decimal("1.500"), "place": {"x": number, "y": None}}
        return {"note": "new", "id": number, "amount": Decimal("2.125"), "place": {"x": 2**40, "y": "z"}}

    by_id = {record.key: record.value for record in log.read("orders")}
    assert by_id == {number: row(number) for number in range(6)}
    found = log.scan("orders")
    assert found.select(topic.schema.names).schema == topic.schema
    assert {r["id"]: r for r in log.table("orders").to_pylist()} == {number: row(number) for number in range(6)}


def test_a_widened_key_stays_the_same_key_in_the_same_partition(log: Log) -> None:
    log.create("orders", "id int, amount int", key="id", partitions=8)
    log.append("orders", [order(number, 1) for number in range(50)])
    before = {record.key: record.partition for record in log.read("orders")}
    log.alter("orders", schema="id bigint, amount int")
    log.append("orders", [order(number, 2) for number in range(50)])
    log.alter("orders", schema="id decimal(20,1), amount int")
    log.append("orders", [order(number, 3) for number in range(50)])
    assert all(before[record.key] == record.partition for record in log.read("orders"))
    assert sorted((r["id"], r["amount"]) for r in log.table("orders").to_pylist()) == [(n, 3) for n in range(50)]


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ("id bigint", "amount"),
        ("id bigint, amount string, place struct<x: int>", "amount"),
        ("id int, amount int, place struct<x: int>", "id"),
        ("id bigint, amount int, place struct<x: int>, note string NOT NULL", "note"),
        ("id bigint NOT NULL, amount int, place struct<x: int>", "id"),
        ("id bigint, Amount int, place struct<x: int>", "amount"),
        ("id bigint, amount int, place struct<y: int>", "place.x"),
    ],
)
def test_any_other_evolution_is_refused_with_its_column(log: Log, schema: str, column: str) -> None:
    before = log.create("orders", "id bigint, amount int, place struct<x: int>")
    log.append("orders", [order(1, 2)])
    with pytest.raises(SchemaError) as error:
        log.alter("orders", schema=schema)
    assert error.value.column == column
    assert log.topic("orders") == before
    assert values(log, "orders") == [{"id": 1, "amount": 2, "place": None}]


def test_an_alteration_happens_whole_or_not_at_all(log: Log) -> None:
    before = log.create("orders", ORDERS, key="id")
    with pytest.raises(UsageError):
        log.alter("orders", schema="id bigint, amount bigint", partitions=2)
    with pytest.raises(UsageError):
        log.alter("orders", schema="id bigint, amount bigint", retention_bytes=-1)
    assert log.topic("orders") == before


def test_another_handle_writes_with_the_newest_schema(log: Log, implementation: Implementation) -> None:
    other = implementation.open()
    log.create("orders", ORDERS)
    other.append("orders", orders(1))
    log.alter("orders", schema=ORDERS + ", note string")
    other.append("orders", [{"id": 2, "note": "new"}])
    assert values(log, "orders") == [
        {"id": 1, "amount": None, "note": None},
        {"id": 2, "amount": None, "note": "new"},
    ]


def test_a_topic_without_a_key_gets_more_partitions_but_never_fewer(log: Log) -> None:
    log.create("events", ORDERS, partitions=2)
    log.append("events", orders(1), partition=1)
    assert log.alter("events", partitions=3).partitions == 3
    log.append("events", orders(2), partition=2)
    assert [(r.partition, r.offset) for r in log.read("events")] == [(1, 0), (2, 0)]
    with pytest.raises(UsageError):
        log.alter("events", partitions=1)
    assert log.topic("events").partitions == 3


def test_a_topic_with_a_key_keeps_its_partitions(log: Log) -> None:
    log.create("orders", ORDERS, key="id", partitions=2)
    with pytest.raises(UsageError):
        log.alter("orders", partitions=4)
    assert log.topic("orders").partitions == 2


def test_settings_change_one_by_one(log: Log) -> None:
    log.create("orders", ORDERS, key="id", retention_age=timedelta(days=2))
    changed = log.alter("orders", retention_bytes=1 << 20)
    assert changed.settings.retention_age == timedelta(days=2)
    assert changed.settings.retention_bytes == 1 << 20
    changed = log.alter("orders", cleanup="compact", retention_bytes=None, retention_age=None)
    assert changed.settings.cleanup == "compact"


def test_a_dropped_topic_is_gone_and_its_name_free(log: Log) -> None:
    log.create("orders", ORDERS, key="id")
    log.append("orders", orders(1, 2))
    with log.consumer("orders", group="billing", lease=LEASE) as consumer:
        assert consumer.poll(AT_ONCE) is not None
        consumer.commit()
    log.drop("orders")
    assert log.topics() == []
    log.create("orders", "id string", key="id")
    assert values(log, "orders") == []
    log.append("orders", [{"id": "new"}])
    assert [(r.offset, r.value) for r in log.read("orders")] == [(0, {"id": "new"})]
    with log.consumer("orders", group="billing", lease=LEASE) as consumer:
        batch = consumer.poll(AT_ONCE)
        assert batch is not None
        assert batch.records["id"].to_pylist() == ["new"]


def test_a_dead_letter_topic_can_not_be_dropped_while_it_is_one(log: Log) -> None:
    log.create("orders", ORDERS, dead_letter="orders.rejected")
    with pytest.raises(UsageError):
        log.drop("orders.rejected")
    log.drop("orders")
    log.drop("orders.rejected")
    assert log.topics() == []


@pytest.mark.parametrize(
    "use",
    [
        lambda log: log.topic("none"),
        lambda log: log.alter("none", partitions=2),
        lambda log: log.drop("none"),
        lambda log: log.append("none", orders(1)),
        lambda log: log.delete("none", [{"id": 1}]),
        lambda log: log.producer("none"),
        lambda log: log.read("none"),
        lambda log: log.batches(["orders", "none"]),
        lambda log: log.scan("none"),
        lambda log: log.table("none"),
        lambda log: log.consumer("none", group="billing"),
    ],
)
def test_a_topic_that_does_not_exist_is_named(log: Log, use: Callable[[Log], object]) -> None:
    log.create("orders", ORDERS, key="id")
    with pytest.raises(UnknownTopic) as error:
        use(log)
    assert error.value.name == "none"
    assert "orders" in error.value.hint


def test_a_commit_into_a_topic_that_was_dropped_meanwhile_does_not_happen(log: Log) -> None:
    log.create("orders", ORDERS)
    log.create("payments", ORDERS)
    with pytest.raises(UnknownTopic), log.commit() as commit:  # noqa: PT012 (the error comes at its end)
        commit.append("payments", orders(1))
        commit.append("orders", orders(1))
        log.drop("orders")
    assert numbers(log, "payments") == []


def test_readers_of_a_dropped_topic_are_told(log: Log) -> None:
    log.create("orders", ORDERS)
    log.append("orders", orders(1))
    reading = log.read("orders", follow=True)
    assert next(reading).offset == 0
    consumer = log.consumer("orders", group="billing", lease=LEASE)
    log.drop("orders")
    with pytest.raises(UnknownTopic):
        consumer.poll(AT_ONCE)
    consumer.close()
    log.create("orders", ORDERS)
    log.append("orders", orders(2))
    with pytest.raises(UnknownTopic):
        next(reading)
