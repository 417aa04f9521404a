"""A commit whose answer is missing: headwater finds out whether it happened."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import LogUnavailable
from headwater.log.kafka.log import KafkaLog
from headwater.log.kafka.transactions import Transactions
from headwater.testing.kafka import KafkaCluster


@pytest.fixture
def log(kafka_cluster: KafkaCluster, tmp_path: Path) -> Iterator[KafkaLog]:
    with KafkaLog(f"{kafka_cluster.url(uuid.uuid4().hex[:8])}?state={tmp_path}", upkeep=False) as opened:
        opened.create("orders", "id bigint")
        yield opened


def test_a_commit_that_happened_is_acknowledged(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Transactions.commit

    def lose_the_answer(self: Transactions) -> None:
        commit(self)
        raise LogUnavailable("kafka://there", "the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "commit", lose_the_answer)
        position = log.append("orders", [{"id": 1}])
    assert position == log.position()
    assert log.append("orders", [{"id": 2}]) > position
    assert [record.value for record in log.read("orders")] == [{"id": 1}, {"id": 2}]


def test_a_commit_that_did_not_happen_is_refused(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_the_question(self: Transactions) -> None:
        raise LogUnavailable("kafka://there", "the question was lost")

    before = log.position()
    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "commit", lose_the_question)
        with pytest.raises(LogUnavailable, match="the question was lost"):
            log.append("orders", [{"id": 1}])
    assert log.position() == before
    log.append("orders", [{"id": 2}])
    assert [record.value for record in log.read("orders")] == [{"id": 2}]
