"""A target with an interval gets batches together, at most that often, and everything that waits."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headwater.connectors.parquet.target import Parquet
from headwater.engine.sinks import feed
from headwater.log.opening import open_log
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.lake import ParquetSystem
from tests.unit.engine.samples import Driver, Unsynced
from tests.webhooks.receiver import until


def test_batches_wait_for_the_interval_and_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.02)
    driver, system = Driver(tmp_path / "pipeline", storage=Unsynced()), ParquetSystem("content")
    with open_log(tmp_path / "log") as log:
        view = Keyed(driver, tmp_path / "pipeline", log)
        view.publish(k1="one")
        began = time.monotonic()
        with view.feeding(Parquet(system.directory, every=1)) as made:
            until(lambda: made.at() == 1)
            # More than a sink takes hold of at once.
            for number in range(100):
                view.publish(k1=f"{number}", k2="two" if number % 2 else None)
                time.sleep(0.01)
            until(lambda: made.at() == 101)
            waited = time.monotonic() - began
            assert 2 <= made.status().deliveries <= 2 + waited
        assert system.rows() == view.held
    system.close()
    driver.close()


def test_a_sink_that_waits_ends_at_once(tmp_path: Path) -> None:
    driver, system = Driver(tmp_path / "pipeline", storage=Unsynced()), ParquetSystem("content")
    with open_log(tmp_path / "log") as log:
        view = Keyed(driver, tmp_path / "pipeline", log)
        view.publish(k1="one")
        with view.feeding(Parquet(system.directory, every="1 hour")) as made:
            until(lambda: made.at() == 1)
            view.publish(k1="two")
            began = time.monotonic()
        assert time.monotonic() - began < 25
        # What waited comes with the next process, without a wait.
        with view.feeding(Parquet(system.directory, every="1 hour")) as made:
            until(lambda: made.at() == 2)
        assert system.rows() == {1: "two"}
    system.close()
    driver.close()
