"""The bank on a Spark cluster whose machines share no disk: log on Kafka, store in PostgreSQL, files in S3."""

from __future__ import annotations

import json
import os
import random
import site
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from headwater.testing.kafka import KafkaCluster
from tests.archives.servers import S3Server
from tests.kafka.bank import bank
from tests.kafka.cluster_driver import ROUNDS
from tests.kafka.test_pipeline import transfer
from tests.postgres.servers import Server
from tests.spark.cluster import spark_cluster

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create("18", Path(directory))
        server.start()
        yield server
        server.stop()


@pytest.fixture
def s3() -> Iterator[S3Server]:
    started = S3Server()
    yield started
    started.close()


def python_without_headwater(folder: Path) -> Path:
    """An interpreter with everything that is installed, except this package: without `site` nothing finds its path."""
    made = folder / "python"
    packages = ":".join(site.getsitepackages())
    made.write_text(
        f'#!/bin/sh\necho >> {made}.used\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n'
    )
    made.chmod(0o755)
    said = subprocess.run(
        [made, "-c", "import pyarrow, headwater"], capture_output=True, text=True, check=False, cwd="/"
    )
    assert "No module named 'headwater'" in said.stderr, said.stderr
    Path(f"{made}.used").unlink()
    return made


def test_machines_that_share_no_disk(
    kafka_cluster: KafkaCluster, server: Server, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "STORE": server.url(),
        "STATE": f"s3://bucket/bank?endpoint_override={s3.url}",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "very-secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    url, dice, balances = (
        kafka_cluster.url(uuid.uuid4().hex[:8]),
        random.Random(22),
        dict.fromkeys(range(5), Decimal(0)),
    )
    (tmp_path / "temporary").mkdir()
    outside = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    command = [sys.executable, "-m", "tests.kafka.cluster_driver"]
    with (
        bank(url, tmp_path / "writer") as writer,
        spark_cluster(tmp_path) as cluster,
        subprocess.Popen(
            [*command, cluster.master, url, str(tmp_path / "driver"), str(python_without_headwater(tmp_path))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**outside, "TMPDIR": str(tmp_path / "temporary")},
        ) as driver,
    ):  # fmt: skip
        assert driver.stdin is not None
        assert driver.stdout is not None
        for number in range(ROUNDS):
            for _ in range(12):
                transfer(writer, dice, balances)
            driver.stdin.write("\n")
            driver.stdin.flush()
            if number == 2:
                cluster.kill_worker()
            line = driver.stdout.readline()
            assert line, "the driver failed"
            assert json.loads(line) == {
                "equal": True,
                "balances": {str(account): str(balance) for account, balance in balances.items() if balance},
            }
        assert driver.wait() == 0
    cached = [len(list(home.glob("headwater-cache-*/*/*.runs"))) for home in cluster.homes]
    assert all(cached), f"each worker keeps the files that it uses: {cached}"
    assert (tmp_path / "python.used").exists()
    assert s3.keys("bank/")
    assert not (tmp_path / "driver" / "pipelines" / "bank" / "runs").exists()
