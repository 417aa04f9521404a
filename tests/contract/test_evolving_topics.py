"""Topics that a program defines: created, altered where the log allows it, and otherwise told apart line by line."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from headwater.errors import HeadwaterError, SchemaError, TopicDiffers, UsageError
from headwater.log.evolving import ensure_topic
from headwater.log.port import Log
from headwater.log.topic import Topic
from tests.contract.implementation import Implementation

ORDERS = "id bigint, amount int, at timestamp"


def define(log: Log, schema: str = ORDERS, **definition: Any) -> Topic:
    """As an application does."""
    shape: dict[str, Any] = {"key": None, "partitions": None, "partition_by": None, "event_time": None}
    settings = {name: value for name, value in definition.items() if name not in shape}
    shape |= {name: value for name, value in definition.items() if name in shape}
    return ensure_topic(log, "orders", schema, settings=settings, **shape)  # type: ignore[arg-type]


def test_a_topic_that_is_missing_is_created(log: Log) -> None:
    made = define(log, key="id", partitions=3, event_time="at", retention_age="7d", dead_letter="dead")
    assert made == log.topic("orders")
    assert (made.key, made.partitions, made.event_time) == (("id",), 3, "at")
    assert (made.settings.retention_age, made.settings.dead_letter) == (timedelta(days=7), "dead")
    assert "dead" in [topic.name for topic in log.topics()]


def test_the_same_definition_changes_nothing(log: Log) -> None:
    made = define(log, key="id", retention_bytes=1000)
    position = log.position()
    assert define(log, key="id", retention_bytes=1000) == made
    assert define(log, key=["id"]) == made
    assert define(log, "at timestamp, amount int, id bigint", key="id") == made
    assert log.topic("orders").schema_version == 0
    assert log.position() == position


def test_a_definition_with_more_evolves_the_topic(log: Log) -> None:
    define(log, key="id")
    log.append("orders", [{"id": 1, "amount": 2}])
    made = define(log, "id bigint, amount decimal(20,2), at timestamp, note string, tags array<int>", key="id")
    assert made.schema.names == ["id", "amount", "at", "note", "tags"]
    assert made.schema_version == 1
    log.append("orders", [{"id": 2, "amount": "2.50", "note": "new"}])
    assert [row["note"] for row in log.table("orders").to_pylist()] == [None, "new"]


def test_settings_that_are_named_are_changed_and_the_others_stay(log: Log) -> None:
    define(log, key="id", retention_age="7d")
    log.alter("orders", retention_bytes=5000, segment_bytes_max=100)
    made = define(log, key="id", retention_age="7d")
    assert (made.settings.retention_bytes, made.settings.segment_bytes_max) == (5000, 100)
    made = define(log, key="id", retention_age="1d")
    assert (made.settings.retention_age, made.settings.retention_bytes) == (timedelta(days=1), 5000)
    made = define(log, key="id", retention_bytes=None)
    assert (made.settings.retention_age, made.settings.retention_bytes) == (timedelta(days=1), None)
    made = define(log, key="id", retention_age=None, cleanup="compact", dead_letter="dead")
    assert (made.settings.cleanup, made.settings.dead_letter) == ("compact", "dead")
    # A default that is named is a choice, too.
    assert define(log, key="id", cleanup="delete").settings.cleanup == "delete"


def test_partitions_grow_where_no_columns_divide_the_topic(log: Log) -> None:
    define(log, partitions=2)
    assert define(log, partitions=4).partitions == 4
    assert define(log).partitions == 4
    with pytest.raises(TopicDiffers) as error:
        define(log, partitions=3)
    assert error.value.differences == ("partitions: 4 in the log, 3 in the application",)


def test_schema_settings_and_partitions_change_together_or_not_at_all(log: Log) -> None:
    before = define(log)
    with pytest.raises(UsageError):
        define(log, f"{ORDERS}, note string", partitions=2, retention_bytes=0)
    with pytest.raises(UsageError):
        define(log, f"{ORDERS}, note string", partitions=2, cleanup="compact")
    assert log.topic("orders") == before
    made = define(log, f"{ORDERS}, note string", partitions=2, retention_bytes=1000)
    assert (made.partitions, made.settings.retention_bytes, made.schema_version) == (2, 1000, 1)


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({"schema": "id bigint, at timestamp"}, ["column amount: int in the log, missing in the application"]),
        (
            {"schema": "id bigint, amount smallint, at timestamp"},
            ["column amount: int in the log, smallint in the application"],
        ),
        (
            {"schema": "id bigint NOT NULL, amount int, at timestamp"},
            ["column id: bigint in the log, bigint NOT NULL in the application"],
        ),
        (
            {"schema": f"{ORDERS}, note string NOT NULL"},
            ["column note: missing in the log, string NOT NULL in the application"],
        ),
        ({"key": None}, ["key: id in the log, none in the application"]),
        (
            {"key": ["id", "at"], "partition_by": "id"},
            ["key: id in the log, id, at in the application", "partition_by: none in the log, id in the application"],
        ),
        ({"event_time": "at"}, ["event_time: none in the log, at in the application"]),
        ({"partitions": 3}, ["partitions: 2 in the log, 3 in the application"]),
        (
            {"schema": "id bigint, amount string, at timestamp_ntz, more int", "partitions": 1},
            [
                "column amount: int in the log, string in the application",
                "column at: timestamp in the log, timestamp_ntz in the application",
                "partitions: 2 in the log, 1 in the application",
            ],
        ),
    ],
)
def test_what_cannot_be_changed_is_told_line_by_line(log: Log, changed: dict[str, Any], lines: list[str]) -> None:
    before = define(log, key="id", partitions=2)
    with pytest.raises(TopicDiffers) as error:
        define(log, **{"key": "id", **changed})
    assert list(error.value.differences) == lines
    assert str(error.value).splitlines()[1:] == [f"  {line}" for line in lines]
    assert "Nullable columns can be added" in error.value.hint
    assert log.topic("orders") == before


def test_an_older_program_is_told_what_it_lacks(log: Log) -> None:
    """It would write records without a column that a newer one has added; nothing is taken back for it."""
    define(log)
    define(log, f"{ORDERS}, note string")
    with pytest.raises(TopicDiffers, match="column note: string in the log, missing in the application"):
        define(log)
    assert log.topic("orders").schema_version == 1


def test_a_definition_without_meaning_is_refused_before_anything_else(log: Log) -> None:
    for wrong in ({"schema": "id nothing"}, {"key": "none"}, {"retention_bytes": -1}):
        with pytest.raises(HeadwaterError):
            define(log, **wrong)
    assert log.topics() == []


def test_programs_that_start_at_once_come_to_one_topic(log: Log, implementation: Implementation) -> None:
    handles = [implementation.open() for _ in range(4)]
    wider = f"{ORDERS}, note string"
    with ThreadPoolExecutor(8) as pool:
        for schema in (ORDERS, wider):
            made = list(pool.map(lambda number: define(handles[number % 4], schema, key="id"), range(16)))  # noqa: B023
            assert {topic.schema_version for topic in made} == {log.topic("orders").schema_version}
    assert len(log.topic("orders").schemas) == 2


def test_a_topic_that_is_changed_meanwhile_is_looked_at_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    define(log)
    stale = log.topic("orders")
    log.alter("orders", schema=f"{ORDERS}, other string")
    looks = iter([stale])
    current = log.topic
    monkeypatch.setattr(log, "topic", lambda name: next(looks, None) or current(name))
    with pytest.raises(TopicDiffers, match="column other"):
        define(log, f"{ORDERS}, note string")
    with pytest.raises(SchemaError):
        log.alter("orders", schema=f"{ORDERS}, note string")
