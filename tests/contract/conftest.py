"""The logs that the contract suite is run for; every test in this folder is run for each of them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.kafka.address import KafkaAddress
from headwater.log.port import Log
from headwater.testing.kafka import KafkaCluster
from tests.contract.implementation import (
    ArchivedImplementation,
    EmbeddedImplementation,
    Implementation,
    KafkaImplementation,
)

IMPLEMENTATIONS = ["archived", "embedded", "kafka"]


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Implementation]:
    made = _made(request, tmp_path)
    yield made
    made.close()


def _made(request: pytest.FixtureRequest, tmp_path: Path) -> Implementation:
    if request.param == "kafka":
        cluster: KafkaCluster = request.getfixturevalue("kafka_cluster")
        return KafkaImplementation(KafkaAddress(cluster.servers, uuid.uuid4().hex[:8], tmp_path / "state"))
    kind = ArchivedImplementation if request.param == "archived" else EmbeddedImplementation
    return kind(tmp_path / "log")


@pytest.fixture
def log(implementation: Implementation) -> Log:
    return implementation.open()


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """On Kafka each test runs with its first parameters: with all of them they take minutes (`make test-kafka`)."""
    if os.environ.get("HEADWATER_KAFKA") == "all":
        return
    seen, left = set[str](), list[pytest.Item]()
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and callspec.params.get("implementation") == "kafka":
            name = item.nodeid.partition("[")[0]
            if name in seen or item.get_closest_marker("long_on_kafka") is not None:
                left.append(item)
            seen.add(name)
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(map(id, left))
        items[:] = [item for item in items if id(item) not in gone]
