"""Mistakes that people make with a log: each is told in a sentence, and none loses a record."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import TopicExists, UsageError
from headwater.log.port import Log

SCHEMA = "id bigint, note string"


@pytest.fixture
def topic(log: Log) -> str:
    log.create("orders", SCHEMA, key="id")
    return "orders"


def ids(log: Log) -> list[int]:
    return sorted(log.scan("orders")["id"].to_pylist())


@pytest.mark.parametrize(
    "made",
    [
        lambda: ({"id": number} for number in (1, 2)),
        lambda: iter([{"id": 1}, {"id": 2}]),
        lambda: pd.DataFrame({"id": [1, 2]}),
        lambda: pa.table({"id": [1, 2]}).to_reader(),
    ],
    ids=["generator", "iterator", "data frame", "Arrow reader"],
)
def test_anything_that_gives_rows_is_appended(log: Log, topic: str, made: Callable[[], Any]) -> None:
    log.append(topic, made())
    assert ids(log) == [1, 2]


@pytest.mark.parametrize("rows", [{"id": 1}, '{"id": 1}', 1, None], ids=["one row", "text", "number", "nothing"])
def test_what_gives_no_rows_is_refused(log: Log, topic: str, rows: Any) -> None:
    with pytest.raises(UsageError) as caught:
        log.append(topic, rows)
    assert caught.value.message.endswith(".")
    assert ids(log) == []


def test_a_file_is_refused_not_taken_for_nothing(log: Log, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text('{"id": 1}\n')
    with path.open("rb") as file, pytest.raises(UsageError, match="bytes"):
        log.append(topic, file)
    log.append(topic, path.read_bytes())
    assert ids(log) == [1]


def test_a_commit_is_used_once(log: Log, topic: str) -> None:
    with log.commit() as commit:
        commit.append(topic, [{"id": 1}])
    for again in (lambda: commit.append(topic, [{"id": 2}]), commit.__enter__, lambda: commit.bookmark("b", 1)):
        with pytest.raises(UsageError, match="ended"):
            again()
    with pytest.raises(ZeroDivisionError), log.commit() as failed:  # noqa: PT012 (what is done before counts)
        failed.append(topic, [{"id": 3}])
        raise ZeroDivisionError
    with pytest.raises(UsageError, match="ended"), failed:
        pass
    assert ids(log) == [1]


def test_sends_are_numbered_from_one(log: Log, topic: str) -> None:
    producer = log.producer(name="import")
    with pytest.raises(UsageError, match="from 1 on"):
        log.commit(producer=producer, sequence=0)
    assert producer.next_sequence() == 1


def test_dead_letters_are_counted_in_the_result(log: Log) -> None:
    log.create("events", SCHEMA, dead_letter="events.dead")
    with log.commit() as commit:
        commit.append("events", [{"id": 1}, {"id": "two"}, {"wrong": 3}])
    assert commit.result.dead_letters == 2


def test_creating_the_same_topic_again_says_that_it_is_the_same(log: Log, topic: str) -> None:
    with pytest.raises(TopicExists) as caught:
        log.create(topic, SCHEMA, key="id")
    assert caught.value.same
    assert "exist_ok=True" in caught.value.hint
    with pytest.raises(TopicExists, match="a different definition"):
        log.create(topic, "id bigint", key="id")


def test_a_hint_shows_in_a_stack_trace(log: Log) -> None:
    with pytest.raises(UsageError) as caught:
        log.topic("nowhere")
    assert caught.value.__notes__ == [f"hint: {caught.value.hint}"]


@pytest.mark.parametrize(
    "call",
    [
        lambda log: log.read("orders", end="garbage"),
        lambda log: log.read("orders", end=date(2026, 1, 1)),
        lambda log: log.read("orders", start=-1),
        lambda log: log.read("orders", start={9: 0}),
        lambda log: list(log.read("orders", end=hw.Position.parse("1000000"))),
        lambda log: log.table("orders", at=hw.Position.parse("1000000")),
        lambda log: log.table("orders", at="3"),
        lambda log: list(log.read("orders", follow=True, idle_timeout=-1)),
        lambda log: log.consumer("orders", group="g", lease=0),
        lambda log: log.producer("orders", linger=True),
        lambda log: log.create("other", {"id": "int"}),
        lambda log: log.create("other", SCHEMA, partitions="3"),
        lambda log: log.create("other", SCHEMA, retention_age="a week"),
        lambda log: log.create("other", SCHEMA, retention_bytes="1GB"),
        lambda log: log.append("orders", [{"id": 1}], partition=True),
    ],
)
def test_an_argument_that_can_not_be_meant_is_refused(log: Log, topic: str, call: Callable[[Log], object]) -> None:
    log.append(topic, [{"id": 7}])
    with pytest.raises(UsageError):
        call(log)
    assert ids(log) == [7]


def test_a_producer_of_the_parent_process_is_refused_in_the_child(log: Log, topic: str) -> None:
    producer = log.producer(topic)
    child = os.fork()
    if child == 0:
        try:
            producer.send({"id": 1})
        except UsageError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    producer.close()


def test_what_was_sent_is_there_though_nothing_was_closed(tmp_path: Path) -> None:
    program = f"""
import headwater as hw
log = hw.open({str(tmp_path / "log")!r})
log.create("orders", {SCHEMA!r}, key="id")
producer = log.producer("orders")
for number in range(1000):
    producer.send({{"id": number}})
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with hw.open(tmp_path / "log") as log:
        assert log.scan("orders").num_rows == 1000


def test_the_first_of_many_records_comes_soon(log: Log, topic: str) -> None:
    log.append(topic, pa.table({"id": range(50_000)}))
    records = log.read(topic)
    assert next(records).offset == 0
    assert sum(1 for _ in records) == 49_999


def test_a_duration_may_be_seconds_or_text(log: Log, topic: str) -> None:
    for duration in (timedelta(0), 0, 0.001, "1 ms"):
        assert log.wait(log.position(), duration) == log.position()
    with pytest.raises(UsageError, match="Invalid timeout"):
        log.wait(log.position(), "soon")
    assert log.create("kept", SCHEMA, retention_age="7 days").settings.retention_age == timedelta(days=7)
    assert log.alter("kept", retention_age=60).settings.retention_age == timedelta(minutes=1)
