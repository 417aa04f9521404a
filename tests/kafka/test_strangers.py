"""What Kafka's own tools, and clients that know nothing of headwater, see of a log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

import headwater as hw
from headwater.errors import UsageError
from headwater.testing.kafka import KafkaCluster, tool

SECOND = timedelta(seconds=1)


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex[:8]


@pytest.fixture
def log(kafka_cluster: KafkaCluster, name: str, tmp_path: Path) -> Iterator[hw.Log]:
    with hw.open(f"{kafka_cluster.url(name)}?state={tmp_path}") as opened:
        yield opened


def messages(cluster: KafkaCluster, topic: str, count: int) -> list[Any]:
    """The first messages of a topic that Kafka shows to those who read what was committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    try:
        return consumer.consume(count, 20)
    finally:
        consumer.close()


def test_a_client_of_kafka_reads_json(log: hw.Log, kafka_cluster: KafkaCluster, name: str) -> None:
    log.create("orders", "id bigint, amount decimal(8,2), note string", key="id")
    with log.commit(headers={"who": "me"}) as commit:
        commit.append("orders", [{"id": 1, "amount": "9.50", "note": 'say "ä"'}, {"id": 2}])
    log.delete("orders", [{"id": 1}])
    found = messages(kafka_cluster, f"{name}.orders", 3)
    assert [json.loads(message.key()) for message in found] == [{"id": 1}, {"id": 2}, {"id": 1}]
    assert [json.loads(message.value()) if message.value() else None for message in found] == [
        {"id": 1, "amount": "9.50", "note": 'say "ä"'},
        {"id": 2, "amount": None, "note": None},
        None,
    ]
    assert [message.headers() for message in found] == [[("who", b"me")], [("who", b"me")], None]


def test_kafkas_tool_shows_the_lag_of_a_group(log: hw.Log, kafka_cluster: KafkaCluster, name: str) -> None:
    log.create("orders", "id bigint")
    for number in range(3):
        log.append("orders", [{"id": number}, {"id": -number}])
    group = f"billing-{name}"
    with log.consumer("orders", group=group) as consumer:
        assert consumer.poll(SECOND) is not None
        consumer.commit()
        log.append("orders", [{"id": 7}])
    log.close()
    shown = tool(
        "consumer.group.ConsumerGroupCommand", "--bootstrap-server", kafka_cluster.servers, "--describe",
        "--group", group,
    )  # fmt: skip
    [row] = [line.split() for line in shown.splitlines() if f"{name}.orders" in line]
    # Kafka counts the mark at the end of a transaction, too: behind the sixth record is one, and one behind the last.
    assert row[1:3] == [f"{name}.orders", "0"]
    assert int(row[4]) - int(row[3]) == int(row[5]) == 3


def test_settings_of_a_topic_are_those_of_kafkas(log: hw.Log, kafka_cluster: KafkaCluster, name: str) -> None:
    log.create("orders", "id bigint", key="id", cleanup="compact", partitions=3)
    log.create("clicks", "id bigint", retention_age="1 hour", retention_bytes=1 << 30, partitions=2)
    shown = tool("TopicCommand", "--bootstrap-server", kafka_cluster.servers, "--describe")
    orders = next(line for line in shown.splitlines() if f"Topic: {name}.orders" in line)
    clicks = next(line for line in shown.splitlines() if f"Topic: {name}.clicks" in line)
    assert "cleanup.policy=compact" in orders
    assert "PartitionCount: 3" in orders
    assert "retention.ms=3600000" in clicks
    assert f"retention.bytes={1 << 29}" in clicks
    log.alter("clicks", retention_age="2 hours")
    shown = tool("TopicCommand", "--bootstrap-server", kafka_cluster.servers, "--describe", "--topic", f"{name}.clicks")
    assert "retention.ms=7200000" in shown


def test_a_topic_with_records_of_others_is_not_taken(log: hw.Log, kafka_cluster: KafkaCluster, name: str) -> None:
    with hw.open(kafka_cluster.url()) as other:
        other.create(f"{name}.orders", "id bigint")
        other.append(f"{name}.orders", [{"id": 1}])
        with pytest.raises(UsageError, match="did not write"):
            log.create("orders", "id bigint")
        assert log.topics() == []
        assert [record.value for record in other.read(f"{name}.orders")] == [{"id": 1}]


def test_what_kafka_does_not_have_is_refused(log: hw.Log, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no archive"):
        log.create("orders", "id bigint", archive=tmp_path)
    with pytest.raises(UsageError, match="does not keep its own files"):
        _ = log.maintenance
    with pytest.raises(UsageError, match="There is no log"):
        hw.open(f"{log.url}-other", create=False)
