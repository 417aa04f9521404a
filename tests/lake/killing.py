"""Kills the feed of a table again and again while the view changes; every version that is seen is one of the view's."""

from __future__ import annotations

import random
import time
from pathlib import Path

from headwater.engine.sinks.progress import ProgressFile
from headwater.log.opening import open_log
from tests.contract.sinks.feeder import Feeder
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.lake import LakeSystem
from tests.unit.engine.samples import Driver, Unsynced
from tests.webhooks.receiver import until

KEYS = 300


def kill(system: LakeSystem, place: Path, *, rounds: int, seed: int) -> int:
    """Ends with the rows of the view in the table. How many deliveries there were."""
    chance = random.Random(seed)
    driver = Driver(place / "pipeline", storage=Unsynced())
    with open_log(place / "log") as log:
        view = Keyed(driver, place / "pipeline", log)
        view.change({key: f"text {key}" for key in range(KEYS)})
        feeder = Feeder(place / "pipeline", place / "log", system.name, **system.arguments())
        try:
            seen = 0
            for _ in range(rounds):
                feeder.start()
                until_killed = time.monotonic() + 30
                before = _deliveries(view)
                while time.monotonic() < until_killed:
                    # Values come back, so that a change that arrived twice, or not at all, would show.
                    chosen = chance.sample(range(KEYS), 20)
                    view.change({key: chance.choice([None, "a", "b", f"text {key}"]) for key in chosen})
                    seen = _check(system, view, seen)
                    if until_killed - time.monotonic() > 1 and _deliveries(view) > before + 1:
                        until_killed = time.monotonic() + chance.random() / 10
                feeder.kill()
                seen = _check(system, view, seen)
            feeder.start()
            until(lambda: system.rows() == view.held)
            assert "Traceback" not in feeder.said()
            assert view.held == view.content()
            return _deliveries(view)
        finally:
            feeder.kill()
            driver.close()


def _deliveries(view: Keyed) -> int:
    return ProgressFile(view.directory, "out").load("v").deliveries


def _check(system: LakeSystem, view: Keyed, seen: int) -> int:
    """What the table holds is a version of the view, and none before the one that was seen last. Which one it is."""
    held = system.rows()
    if not held and not seen:
        return 0
    found = [number for number, version in enumerate(view.versions) if number >= seen and version == held]
    assert found, f"The table holds no version of the view from {seen} on"
    return found[0]
