"""Appending: in every form, to the right partition, all or nothing, and what becomes of records that do not fit."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from headwater.errors import InvalidRecords, UsageError
from headwater.log.port import Log, Rows
from headwater.model.position import START, Position
from tests.contract.implementation import Implementation
from tests.contract.looking import ORDERS, numbers, order, orders, table, values

ROWS = [order(1, 10), order(2), {"id": 3}]
FORMS: dict[str, Rows] = {
    "dicts": ROWS,
    "table": pa.table({"id": [1, 2, 3], "amount": [10, None, None]}),
    "record batch": pa.RecordBatch.from_pylist(ROWS, pa.schema([("id", pa.int16()), ("amount", pa.int64())])),
    "table of another order": pa.table({"amount": pa.array([10, None, None], pa.int8()), "id": [1, 2, 3]}),
    "json lines": b'{"id": 1, "amount": 10}\n\n{"amount": null, "id": 2}\r\n{"id": 3}',
}
MISFITS: dict[str, Rows] = {
    "dicts": [order(1), {"id": 2, "amount": "many"}],
    "table": pa.table({"id": [1, 2], "amount": [None, "many"]}),
    "record batch": pa.RecordBatch.from_pydict({"id": [1, 2], "amount": [None, "many"]}),
    "json lines": b'{"id": 1}\n{"id": 2, "amount": "many"}\n',
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_records(log: Log, form: str) -> None:
    log.create("orders", ORDERS, key="id")
    position = log.append("orders", FORMS[form])
    assert values(log, "orders") == [order(1, 10), order(2), order(3)]
    assert [(r.topic, r.partition, r.offset, r.key, r.position, r.headers) for r in log.read("orders")] == [
        ("orders", 0, offset, offset + 1, position, {}) for offset in range(3)
    ]


def test_an_append_is_seen_by_every_handle_when_it_returns(log: Log, implementation: Implementation) -> None:
    other = implementation.open()
    log.create("orders", ORDERS)
    position = log.append("orders", orders(1))
    assert position > START
    assert other.position() == log.position() == position
    assert numbers(other, "orders") == [1]
    assert other.append("orders", orders(2)) > position
    assert numbers(log, "orders") == [1, 2]


def test_appending_nothing_changes_nothing(log: Log) -> None:
    log.create("orders", ORDERS, key="id")
    before = log.append("orders", orders(1))
    nothings: list[Rows] = [[], b"", b"\n \n", pa.table({"id": pa.array([], pa.int64())})]
    for nothing in nothings:
        assert log.append("orders", nothing) == before
    assert log.position() == before
    assert numbers(log, "orders") == [1]


@pytest.mark.parametrize("form", MISFITS)
def test_a_record_that_does_not_fit_is_named_and_nothing_is_written(log: Log, form: str) -> None:
    log.create("orders", ORDERS)
    before = log.position()
    with pytest.raises(InvalidRecords) as error:
        log.append("orders", MISFITS[form])
    [rejected] = error.value.rejected
    assert error.value.topic == "orders"
    assert (rejected.index, rejected.field) == (1, "amount")
    assert rejected.expected.startswith("int ")
    assert "many" in rejected.got
    assert json.loads(rejected.original) == {"id": 2, "amount": "many"}
    assert "Record 1" in str(error.value)
    assert log.position() == before
    assert values(log, "orders") == []


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"id": 1, "surprise": 1}, "surprise"),
        ({"amount": 1}, "id"),
        ({"id": None}, "id"),
        ({"id": 1, "amount": 2**31}, "amount"),
        ({"id": 1, "amount": 1.5}, "amount"),
        ({"id": 1, "amount": True}, "amount"),
        ({"id": 1, "name": b"x"}, "name"),
        ({"id": 1, "name": None}, "name"),
        ({"id": 1, "place": {"x": "y"}}, "place.x"),
        ({"id": 1, "_headers": {"a": 1}}, "_headers"),
    ],
)
def test_what_does_not_fit(log: Log, row: dict[str, object], field: str) -> None:
    log.create("orders", "id bigint, amount int, name string NOT NULL, place struct<x: int>", key="id")
    good = {"id": 7, "name": "a"}
    with pytest.raises(InvalidRecords) as error:
        log.append("orders", [good, {"name": "a", **row}, good])
    [rejected] = error.value.rejected
    assert rejected.index == 1
    assert (rejected.field or "").startswith(field)
    assert values(log, "orders") == []


def test_all_that_do_not_fit_are_named(log: Log) -> None:
    log.create("orders", ORDERS)
    with pytest.raises(InvalidRecords) as error:
        log.append("orders", b'{"id": 1}\n[2]\n{"id": 3}\n{"id": \n')
    assert [(one.index, one.field, one.original) for one in error.value.rejected] == [
        (1, None, b"[2]"),
        (3, None, b'{"id": '),
    ]


@pytest.mark.parametrize("form", MISFITS)
def test_dead_letters_keep_reason_and_original(log: Log, form: str) -> None:
    log.create("orders", ORDERS, key="id", partitions=2, dead_letter="rejected")
    position = log.append("orders", MISFITS[form])
    assert numbers(log, "orders") == [1]
    [letter] = log.read("rejected")
    assert letter.position == position
    assert letter.value is not None
    assert (letter.value["topic"], letter.value["field"]) == ("orders", "amount")
    assert str(letter.value["expected"]).startswith("int ")
    assert "many" in str(letter.value["got"])
    assert "amount" in str(letter.value["reason"])
    original = letter.value["original"]
    assert isinstance(original, bytes)
    assert json.loads(original) == {"id": 2, "amount": "many"}


def test_an_append_tells_which_records_became_dead_letters(log: Log) -> None:
    log.create("orders", ORDERS, key="id", partitions=2, dead_letter="rejected")
    position = log.append("orders", [{"id": 1}, {"id": "x"}, {"id": 3, "amount": "many"}, {"id": 4}])
    assert [(one.index, one.field, json.loads(one.original)) for one in position.rejected] == [
        (1, "id", {"id": "x"}),
        (2, "amount", {"id": 3, "amount": "many"}),
    ]
    assert log.delete("orders", [{"id": 1}, {"id": "y"}]).rejected[0].index == 1
    assert log.append("orders", [{"id": 5}]).rejected == ()
    assert log.append("orders", b"nothing\n").rejected[0].original == b"nothing"


def test_the_position_of_an_append_is_a_position_like_any_other(log: Log) -> None:
    log.create("orders", ORDERS, dead_letter="rejected")
    first = log.append("orders", b"x")
    second = log.append("orders", orders(1))
    assert (first.rejected[0].original, second.rejected) == (b"x", ())
    assert second == log.position() == Position.parse(str(second))
    assert len({second, log.position()}) == 1
    assert first < second > Position() < first
    assert first <= log.position() >= second >= log.position()
    assert not first > second
    assert first != second
    assert numbers(log, "orders", start=first) == [1]
    assert pickle.loads(pickle.dumps(first)) == first


def test_a_commit_tells_which_records_became_dead_letters(log: Log) -> None:
    log.create("orders", ORDERS, key="id", dead_letter="rejected")
    log.create("payments", ORDERS, dead_letter="rejected")
    with log.commit() as commit:
        assert commit.append("orders", [{"id": 1}, {"id": "x"}])[0].index == 1
        assert commit.append("payments", orders(1)) == ()
        assert commit.append("payments", [{"id": "y"}, {"id": 2}])[0].index == 0
        assert commit.delete("orders", [{"id": "z"}])[0].field == "id"
        assert (commit.dead_letters, len(commit.rejected)) == (3, 3)
    assert [json.loads(one.original) for one in commit.rejected] == [{"id": "x"}, {"id": "y"}, {"id": "z"}]


def test_dead_letters_keep_the_very_bytes_of_a_line(log: Log) -> None:
    log.create("orders", ORDERS, dead_letter="rejected")
    log.append("orders", b'{"id":  1.5 }\n{"id": 2}\nnot \xff json\n')
    assert numbers(log, "orders") == [2]
    assert log.scan("rejected")["original"].to_pylist() == [b'{"id":  1.5 }', b"not \xff json"]
    log.append("orders", b"all of it bad")
    assert numbers(log, "orders") == [2]
    assert log.scan("rejected").num_rows == 3


def test_several_topics_share_a_dead_letter_topic_that_must_be_one(log: Log) -> None:
    log.create("orders", ORDERS, dead_letter="rejected")
    log.create("payments", ORDERS, dead_letter="rejected")
    for topic in ("orders", "payments"):
        log.append(topic, b"x")
    assert log.scan("rejected")["topic"].to_pylist() == ["orders", "payments"]
    with pytest.raises(UsageError):
        log.create("others", ORDERS, dead_letter="orders")
    assert [topic.name for topic in log.topics()] == ["orders", "payments", "rejected"]


def test_the_partition_of_a_key_is_the_same_for_ever(log: Log, implementation: Implementation) -> None:
    log.create("orders", "id bigint, name string", key=["id", "name"], partitions=4)
    implementation.open().append("orders", [{"id": n, "name": f"n{n}"} for n in range(12)])
    log.append("orders", pa.table({"name": [f"n{n}" for n in range(12)], "id": range(12)}))
    found: dict[object, set[int]] = {}
    for record in log.read("orders"):
        found.setdefault(record.key, set()).add(record.partition)
    assert found == {(n, f"n{n}"): {partition} for n, partition in enumerate([0, 2, 0, 1, 2, 3, 3, 1, 1, 3, 0, 3])}


def test_equal_numbers_are_one_key(log: Log) -> None:
    log.create("rates", "rate double, amount int", key="rate", partitions=8)
    log.append("rates", [{"rate": 0.0, "amount": 1}, {"rate": float("nan"), "amount": 1}])
    log.append("rates", [{"rate": -0.0, "amount": 2}, {"rate": -float("nan"), "amount": 2}])
    assert log.table("rates")["amount"].to_pylist() == [2, 2]


def test_records_of_a_partition_keep_the_order_of_the_append(log: Log) -> None:
    log.create("orders", ORDERS, key="id", partitions=3)
    log.append("orders", [order(n % 7, n) for n in range(100)])
    log.append("orders", [order(n % 7, n) for n in range(100, 150)])
    for partition in range(3):
        records = [r for r in log.read("orders") if r.partition == partition]
        assert [r.offset for r in records] == list(range(len(records)))
        amounts = [r.value["amount"] for r in records if r.value is not None]
        assert amounts == sorted(amounts)  # type: ignore[type-var]


def test_a_partition_may_be_named(log: Log) -> None:
    log.create("events", ORDERS, partitions=3)
    log.append("events", orders(1, 2), partition=2)
    log.append("events", [{"id": 3, "_partition": 1}, {"id": 4, "_partition": 0}, {"id": 5, "_partition": 1}])
    by_partition = {(r.partition, r.offset): r.value for r in log.read("events")}
    assert {place: value["id"] for place, value in by_partition.items() if value} == {
        (2, 0): 1, (2, 1): 2, (1, 0): 3, (0, 0): 4, (1, 1): 5,
    }  # fmt: skip
    for partition in (-1, 3):
        with pytest.raises(UsageError):
            log.append("events", orders(6), partition=partition)
        with pytest.raises(UsageError):
            log.append("events", [{"id": 6, "_partition": partition}])
    assert log.scan("events").num_rows == 5


def test_without_a_key_appends_go_round_the_partitions(log: Log) -> None:
    log.create("events", ORDERS, partitions=3)
    for number in range(6):
        log.append("events", orders(number))
    assert sorted(r.partition for r in log.read("events")) == [0, 0, 1, 1, 2, 2]
    log.append("events", pa.table({"id": range(9_000)}))
    sizes = [log.scan("events").filter(pa.compute.field("_partition") == p).num_rows for p in range(3)]
    assert min(sizes) > 1_000


def test_headers_travel_with_records(log: Log, implementation: Implementation) -> None:
    log.create("orders", ORDERS, key="id")
    log.append("orders", [{"id": 1, "_headers": {"who": "me", "why": ""}}, {"id": 2}])
    with log.commit(headers={"who": "you", "trace": "1"}) as commit:
        commit.append("orders", [{"id": 3, "_headers": {"who": "me"}}, {"id": 4}])
        commit.append("orders", orders(5))
        commit.delete("orders", [{"id": 1}])
    for _ in range(2):
        assert [r.headers for r in log.read("orders")] == [
            {"who": "me", "why": ""},
            {},
            {"who": "me", "trace": "1"},
            {"who": "you", "trace": "1"},
            {"who": "you", "trace": "1"},
            {"who": "you", "trace": "1"},
        ]
        implementation.settle(log, "orders")


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("keys", [[{"id": 1}, {"id": 3}], b'{"id": 1}\n{"id": 3}', pa.table({"id": [1, 3]})])
def test_a_deleted_key_has_a_tombstone_and_no_row(
    log: Log, implementation: Implementation, keys: Rows, settled: bool
) -> None:
    log.create("orders", "id bigint, amount int, name string NOT NULL", key="id", partitions=2)
    log.append("orders", [{"id": n, "amount": n, "name": "a"} for n in (1, 2, 3)])
    position = log.delete("orders", keys)
    if settled:
        implementation.settle(log, "orders")
    tombstones = [r for r in log.read("orders") if r.value is None]
    assert sorted(str(r.key) for r in tombstones) == ["1", "3"]
    assert {r.position for r in tombstones} == {position}
    assert table(log, "orders") == {2: 2}
    log.append("orders", [{"id": 1, "amount": 9, "name": "b"}])
    assert table(log, "orders") == {2: 2, 1: 9}
    scanned = log.scan("orders", columns=["id", "_deleted"]).to_pylist()
    assert sorted(r["id"] for r in scanned if r["_deleted"]) == [1, 3]


def test_a_tombstone_may_stand_among_records(log: Log) -> None:
    log.create("orders", ORDERS, key="id")
    log.append("orders", [order(1, 1), order(2, 2), {"id": 1, "_deleted": True}, {"id": 2, "_deleted": False}])
    assert [r.value is None for r in log.read("orders")] == [False, False, True, False]
    assert table(log, "orders") == {2: None}


def test_what_can_not_be_deleted(log: Log) -> None:
    log.create("orders", ORDERS, key="id")
    log.create("events", ORDERS)
    rejections: list[Rows] = [[{"id": None}], [{}], [{"id": "x"}], [{"id": 1, "amount": 2}], b"[1]"]
    for keys in rejections:
        with pytest.raises(InvalidRecords):
            log.delete("orders", keys)
    with pytest.raises(UsageError):
        log.delete("events", [{"id": 1}])
    with pytest.raises(UsageError):
        log.append("events", [{"id": 1, "_deleted": True}])
    assert values(log, "orders", "events") == []


def test_many_threads_and_handles_append_without_loss(log: Log, implementation: Implementation) -> None:
    log.create("orders", ORDERS, key="id", partitions=2)
    handles = [log, implementation.open()]

    def append(number: int) -> None:
        handles[number % 2].append("orders", orders(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(append, range(200)))
    records = list(log.read("orders"))
    assert sorted(r.key for r in records) == list(range(200))  # type: ignore[type-var]
    for partition in range(2):
        offsets = [r.offset for r in records if r.partition == partition]
        assert offsets == list(range(len(offsets)))
    assert [r.position for r in records] == sorted(r.position for r in records)
