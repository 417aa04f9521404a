"""An index whose sink and whose server are killed, and whose connections are cut: it ends with the view's rows."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.engine.sinks.progress import ProgressFile
from headwater.log.opening import open_log
from tests.contract.sinks.feeder import Feeder
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.opensearch import INDEX, OpenSearchSystem, server, stop_opensearch
from tests.contract.sinks.proxy import proxied
from tests.unit.engine.samples import Driver, Unsynced
from tests.webhooks.receiver import until

ROUNDS = 8
KEYS = 300


@pytest.fixture(scope="module")
def system() -> Iterator[OpenSearchSystem]:
    yield OpenSearchSystem()
    stop_opensearch()


@pytest.fixture
def view(tmp_path: Path) -> Iterator[Keyed]:
    driver = Driver(tmp_path / "pipeline", storage=Unsynced())
    with open_log(tmp_path / "log") as log:
        yield Keyed(driver, tmp_path / "pipeline", log)
    driver.close()


def deliveries(view: Keyed) -> int:
    return ProgressFile(view.directory, "out").load("v").deliveries


@pytest.mark.timeout(400)
def test_an_index_ends_with_the_view_whatever_is_killed(tmp_path: Path, system: OpenSearchSystem, view: Keyed) -> None:
    chance = random.Random(11)
    view.change({key: f"text {key}" for key in range(KEYS)})
    with proxied(server().port) as proxy:
        feeder = Feeder(
            tmp_path / "pipeline", tmp_path / "log", "OpenSearch", url=f"http://127.0.0.1:{proxy.port}", index=INDEX
        )
        try:
            for number in range(ROUNDS):
                feeder.start()
                proxy.cutting = number % 2 == 1
                cut, delivered = proxy.cut, deliveries(view)
                until_killed = float("inf")
                while time.monotonic() < until_killed:
                    # Values come back, so that a change that arrived in part and was taken back would show.
                    chosen = chance.sample(range(KEYS), 60)
                    view.change({key: chance.choice([None, "a", "b", f"text {key}"]) for key in chosen})
                    time.sleep(0.02)
                    busy = proxy.cut > cut + 2 if proxy.cutting else deliveries(view) > delivered + 2
                    if busy and until_killed == float("inf"):
                        until_killed = time.monotonic() + chance.random() / 5
                if number == ROUNDS // 2:
                    server().kill()
                feeder.kill()
                if number == ROUNDS // 2:
                    server().start()
            proxy.cutting = False
            feeder.start()
            until(lambda: system.rows() == view.held)
            assert "Traceback" not in feeder.said()
        finally:
            feeder.kill()
    assert view.held == view.content()
