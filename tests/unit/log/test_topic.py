"""Topics and their settings: what is accepted, what is refused and why, and what is kept of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidName, SchemaError, UsageError
from headwater.log.topic import (
    PARTITIONS_MAX,
    RING_SEGMENTS_MIN,
    SEGMENT_BYTES_DEFAULT,
    Topic,
    TopicSettings,
    define_topic,
    parse_schema,
)
from headwater.model.record import SYSTEM_COLUMNS

SCHEMA = "id bigint, amount decimal(12,2), at timestamp, tags array<string>"

durations = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000))
settings = st.builds(
    TopicSettings,
    retention_age=st.none() | durations,
    retention_bytes=st.none() | st.integers(1, 1 << 50),
    cleanup=st.sampled_from(["delete", "compact", "none"]),
    dead_letter=st.none() | st.just("letters"),
    segment_bytes_max=st.integers(1, 1 << 40),
    segment_age_max=durations,
    tombstone_grace=durations,
)


def topic(**changes: Any) -> Topic:
    values: dict[str, Any] = {
        "name": "orders", "schema": SCHEMA, "key": "id", "partitions": 4, "event_time": "at",
        "settings": TopicSettings(),
    }  # fmt: skip
    return define_topic(**(values | changes))


def test_a_topic_is_what_was_asked_for() -> None:
    made = topic()
    assert (made.name, made.key, made.partitions, made.event_time) == ("orders", ("id",), 4, "at")
    assert made.schema.names == ["id", "amount", "at", "tags"]
    assert made.schema_version == 0
    assert topic(key=["id", "at"]).key == ("id", "at")
    assert topic(key=None).key == ()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"name": "../orders"}, InvalidName, "../orders"),
        ({"partitions": 0}, UsageError, "partitions"),
        ({"partitions": PARTITIONS_MAX + 1}, UsageError, "partitions"),
        ({"key": "nobody"}, SchemaError, "nobody"),
        ({"key": ["id", "id"]}, SchemaError, "twice"),
        ({"key": "tags"}, SchemaError, "nested"),
        ({"event_time": "nobody"}, SchemaError, "nobody"),
        ({"event_time": "amount"}, SchemaError, "not a timestamp"),
        ({"schema": "id bigint,"}, SchemaError, ""),
        ({"settings": TopicSettings(dead_letter="a/b")}, InvalidName, "a/b"),
        ({"settings": TopicSettings(dead_letter="orders")}, UsageError, "its own"),
        ({"settings": TopicSettings(cleanup="compact"), "key": None}, UsageError, "without a key"),
        ({"settings": TopicSettings(retention_bytes=0)}, UsageError, "retention_bytes"),
        ({"settings": TopicSettings(segment_bytes_max=-1)}, UsageError, "segment_bytes_max"),
        ({"settings": TopicSettings(retention_age=timedelta(-1))}, UsageError, "retention_age"),
        ({"settings": TopicSettings(cleanup="compact", retention_bytes=1)}, UsageError, "no effect"),
        ({"settings": TopicSettings(cleanup="none", retention_age=timedelta(1))}, UsageError, "no effect"),
        ({"settings": TopicSettings(cleanup="burn")}, UsageError, "burn"),  # type: ignore[arg-type]
    ],
)
def test_what_has_no_meaning_is_refused(changes: dict[str, Any], error: type[UsageError], words: str) -> None:
    with pytest.raises(error) as caught:
        topic(**changes)
    assert words in str(caught.value)


@pytest.mark.parametrize("partitions", [1, PARTITIONS_MAX])
def test_the_limits_themselves_are_allowed(partitions: int) -> None:
    assert topic(partitions=partitions).partitions == partitions


@pytest.mark.parametrize("name", [*SYSTEM_COLUMNS, "_OFFSET"])
def test_a_column_may_not_be_called_like_the_log_s_own(name: str) -> None:
    for schema in (f"{name} bigint", pa.schema([(name, pa.int64())])):
        with pytest.raises(SchemaError) as caught:
            parse_schema(schema)
        assert caught.value.column == name


def test_a_schema_is_the_same_however_it_is_written() -> None:
    arrow = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    assert parse_schema("id bigint, at timestamp").equals(parse_schema(arrow))


@given(settings)
def test_settings_survive_the_catalog(given_settings: TopicSettings) -> None:
    text = given_settings.to_json()
    assert TopicSettings.from_json(text) == given_settings
    assert "\n" not in text


@given(settings, st.integers(1, PARTITIONS_MAX))
def test_segments_are_never_larger_than_asked_and_a_ring_has_several(
    given_settings: TopicSettings, partitions: int
) -> None:
    made = replace(topic(), settings=given_settings, partitions=partitions)
    assert 1 <= made.roll_bytes <= given_settings.segment_bytes_max
    bytes_max = given_settings.retention_bytes
    if bytes_max is not None and bytes_max >= RING_SEGMENTS_MIN * partitions:
        assert made.roll_bytes * RING_SEGMENTS_MIN * partitions <= bytes_max


def test_without_a_cap_segments_have_the_usual_size() -> None:
    assert topic().roll_bytes == SEGMENT_BYTES_DEFAULT


def test_topics_are_alike_whatever_their_numbers_and_their_past() -> None:
    made = topic()
    older = pa.schema([("id", pa.int32())])
    assert made.same_as(replace(made, id=7, schemas=(older, made.schema)))
    for other in (
        topic(name="payments"),
        topic(partitions=5),
        topic(key=None),
        topic(event_time=None),
        topic(schema="id bigint, at timestamp"),
        topic(settings=TopicSettings(cleanup="none")),
    ):
        assert not made.same_as(other)


def test_a_description_is_complete_and_can_be_written_as_json() -> None:
    shown = json.loads(json.dumps(topic(settings=TopicSettings(retention_age=timedelta(hours=1))).describe()))
    assert shown["topic"] == "orders"
    assert shown["schema_version"] == 0
    assert shown["key"] == ["id"]
    assert shown["retention_age"] == 3600
    assert parse_schema(shown["schema"]).equals(topic().schema)
    assert set(TopicSettings.__dataclass_fields__) <= set(shown)
