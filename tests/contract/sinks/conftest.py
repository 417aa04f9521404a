"""The targets that the contract suite of sinks is run for; every test in this folder is run for each of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.engine.sinks import feed
from headwater.log.opening import open_log
from headwater.testing.kafka import KafkaCluster
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.keyed import MemorySystem, System
from tests.contract.sinks.lake import SYSTEMS as LAKE_SYSTEMS
from tests.contract.sinks.opensearch import OpenSearchSystem, stop_opensearch
from tests.contract.sinks.postgres import PostgresSystem, stop_server
from tests.contract.sinks.redis import RedisSystem
from tests.contract.sinks.targets import FunctionTarget, Target, TransactionalTarget, WebhookTarget
from tests.contract.sinks.topics import TopicSystem
from tests.unit.engine.samples import Driver, Unsynced
from tests.webhooks.sending import publish

TARGETS: dict[str, Callable[[], Target]] = {
    "webhook": WebhookTarget,
    "function": FunctionTarget,
    "transactional": TransactionalTarget,
}

SYSTEMS: dict[str, Callable[[], System]] = {
    "memory": MemorySystem,
    "opensearch": OpenSearchSystem,
    **LAKE_SYSTEMS,
    "postgres": PostgresSystem,
    "redis-hash": lambda: RedisSystem("hash"),
    "redis-json": lambda: RedisSystem("json"),
    "topic-debezium": lambda: TopicSystem("debezium"),
    "topic-json": lambda: TopicSystem("json"),
    "topic-rows": lambda: TopicSystem("rows"),
}


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.02)


@pytest.fixture(params=sorted(TARGETS))
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    made = TARGETS[request.param]()
    yield made
    made.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "pipeline"


@pytest.fixture
def driver(directory: Path) -> Iterator[Driver]:
    """Publishes the view `v`, with two rows at first."""
    made = Driver(directory, storage=Unsynced())
    publish(made, ("one", 1), ("two", 2))
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def servers() -> Iterator[None]:
    yield
    stop_server()
    stop_opensearch()


@pytest.fixture(params=sorted([*SYSTEMS, "topic-kafka"]))
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    if request.param == "topic-kafka":
        cluster: KafkaCluster = request.getfixturevalue("kafka_cluster")
        made: System = TopicSystem("rows", cluster.url(uuid.uuid4().hex[:8]))
    else:
        made = SYSTEMS[request.param]()
    yield made
    made.close()


@pytest.fixture
def view(directory: Path, tmp_path: Path) -> Iterator[Keyed]:
    """Publishes the view `v` with a key, with two rows at first."""
    driver = Driver(directory, storage=Unsynced())
    with open_log(tmp_path / "log") as log:
        made = Keyed(driver, directory, log)
        made.publish(k1="one", k2="two")
        yield made
    driver.close()
