"""The systems that the contract suite of sources is run for; every test in this folder is run for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.engine.sources import Home
from headwater.log.port import Log
from tests.contract.sources.systems import ListSystem, PostgresSystem, System

SYSTEMS: dict[str, Callable[[], System]] = {"list": ListSystem, "postgres": PostgresSystem}


@pytest.fixture(params=sorted(SYSTEMS))
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    made = SYSTEMS[request.param]()
    yield made
    made.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with hw.open(tmp_path / "log") as log:
        yield log


@pytest.fixture
def home(log: Log, tmp_path: Path) -> Home:
    return Home("s", log, tmp_path / "capture" / "s")
