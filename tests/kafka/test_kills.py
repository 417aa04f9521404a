"""A writer, and Kafka itself, killed with -9 at any moment: acknowledged transfers are there once, and whole."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import headwater as hw
from headwater.testing.kafka import KafkaCluster, fetch

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("HEADWATER_KILLS", "2"))
NODES = int(os.environ.get("HEADWATER_KAFKA_NODES", "1"))
KILL_SECONDS = 60
"""How long a round may take: a writer that dies in the middle of a commit holds up others until Kafka aborts it."""


def transfers(log: hw.Log, topic: str) -> Counter[object]:
    return Counter(record.value["transfer"] for record in log.read(topic) if record.value)


@pytest.mark.timeout(120 + 2 * KILLS * KILL_SECONDS)
def test_writers_and_brokers_are_killed(tmp_path: Path) -> None:
    try:
        fetch()
    except LookupError as reason:
        pytest.skip(f"KAFKA IS NOT TESTED: {reason}")
    dice, cluster = random.Random(3), KafkaCluster(tmp_path / "kafka", NODES)
    acknowledged: set[int] = set()
    try:
        cluster.start()
        with hw.open(f"{cluster.url('bank')}?state={tmp_path}", upkeep=False) as log:
            log.create("withdrawals", "transfer bigint, amount bigint", partitions=2)
            log.create("deposits", "transfer bigint, amount bigint")
            for round_number in range(KILLS):
                first = 1_000_000 * (round_number + 1)
                acknowledged |= run_writer(cluster, dice, first, kills_broker=round_number % 2 == 1)
                deposits = transfers(log, "deposits")
                assert transfers(log, "withdrawals") == deposits
                assert set(deposits.values()) <= {1}
                assert acknowledged <= deposits.keys()
            log.append("deposits", [{"transfer": 1, "amount": 1}])
    finally:
        cluster.kill()
    assert acknowledged


def run_writer(cluster: KafkaCluster, dice: random.Random, first: int, *, kills_broker: bool) -> set[int]:
    """The transfers that a writer saw acknowledged before it was killed, or while a broker was."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.kafka.writer", cluster.url("bank"), str(first)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as writer:  # fmt: skip
        assert writer.stdout is not None
        seen = {int(line) for _, line in zip(range(dice.randrange(3, 30)), writer.stdout, strict=False)}
        time.sleep(dice.random() * 0.03)
        if kills_broker:
            broker = dice.choice(cluster.brokers)
            broker.kill()
            time.sleep(dice.random())
            broker.start()
            seen |= {int(line) for _, line in zip(range(10), writer.stdout, strict=False)}
        writer.kill()
        seen |= {int(line) for line in writer.stdout if line.endswith("\n")}
    return seen
