"""A pipeline whose log is on Kafka: right at every position, also after its driver and Kafka are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.testing.kafka import KafkaCluster, fetch
from tests.kafka.bank import bank

ROOT = Path(__file__).parents[2]


def transfer(app: hw.App, dice: random.Random, balances: dict[int, Decimal]) -> hw.Position:
    """One transfer, in the log and in the balances that are expected."""
    source, target, amount = dice.randrange(5), dice.randrange(5), Decimal(dice.randrange(1, 10_000)) / 100
    balances[source] -= amount
    balances[target] += amount
    with app.log.commit() as commit:
        commit.append("withdrawals", [{"account": source, "amount": amount}])
        commit.append("deposits", [{"account": target, "amount": amount}])
    return commit.position


def check(app: hw.App, balances: dict[int, Decimal], position: hw.Position) -> None:
    shown = {row["account"]: row["balance"] for row in app.read("balances", at_least=position).to_pylist()}
    assert {account: balance for account, balance in shown.items() if balance} == {
        account: balance for account, balance in balances.items() if balance
    }
    assert all(app.verify(view).equal for view in app.views)


def test_the_bank_has_nothing_at_every_position(
    kafka_cluster: KafkaCluster, tmp_path: Path, spark: SparkSession
) -> None:
    dice, balances = random.Random(20), dict.fromkeys(range(5), Decimal(0))
    seen, position = 0, hw.START
    with bank(kafka_cluster.url(tmp_path.name), tmp_path / "state") as app:
        for _ in range(2):
            for _ in range(25):
                position = transfer(app, dice, balances)
            for progress in app.batches():
                seen += 1
                assert progress.records <= 20, "a transfer has two records, and a batch ends with one"
                snapshot = app.snapshot(at_least=progress.position)
                assert snapshot.tables["total"].to_pylist() == [{"total": Decimal(0)}]
        check(app, balances, position)
    assert seen >= 6
    assert (tmp_path / "state" / "pipelines" / "bank").is_dir()


@pytest.mark.timeout(300)
def test_the_driver_and_kafka_are_killed(tmp_path: Path, spark: SparkSession) -> None:
    try:
        fetch()
    except LookupError as reason:
        pytest.skip(f"KAFKA IS NOT TESTED: {reason}")
    dice, balances = random.Random(21), dict.fromkeys(range(5), Decimal(0))
    cluster = KafkaCluster(tmp_path / "kafka")
    try:
        cluster.start()
        with bank(cluster.url(), tmp_path / "state") as app:
            position = transfer(app, dice, balances)
            with subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.bank", cluster.url(), str(tmp_path / "state")],
                stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
            ) as driver:  # fmt: skip
                assert driver.stdout is not None
                assert driver.stdout.readline()
                for _ in range(15):
                    position = transfer(app, dice, balances)
                # Somewhere inside a batch, most likely: both lose what they had in memory.
                assert driver.stdout.readline()
                cluster.kill()
                os.killpg(driver.pid, signal.SIGKILL)
            cluster.start()
            position = transfer(app, dice, balances)
            for progress in app.batches():
                snapshot = app.snapshot(at_least=progress.position)
                assert snapshot.tables["total"].to_pylist() == [{"total": Decimal(0)}]
            check(app, balances, position)
    finally:
        cluster.kill()
