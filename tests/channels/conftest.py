"""A view with a key that is published by hand, and who is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.engine.sinks import feed
from headwater.log.opening import open_log
from tests.channels.posts import Posts, taking_posts
from tests.contract.sinks.feeding import Keyed
from tests.unit.engine.samples import Driver, Unsynced


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.02)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "shop"


@pytest.fixture
def view(directory: Path, tmp_path: Path) -> Iterator[Keyed]:
    """Publishes the view `v`, with two rows at first."""
    driver = Driver(directory, storage=Unsynced())
    with open_log(tmp_path / "log") as log:
        made = Keyed(driver, directory, log)
        made.publish(k1="one", k2="two")
        yield made
    driver.close()


@pytest.fixture
def posts() -> Iterator[Posts]:
    with taking_posts() as made:
        yield made
