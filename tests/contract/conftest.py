"""The logs that the contract suite is run for; every test in this folder is run for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.port import Log
from tests.contract.implementation import ArchivedImplementation, EmbeddedImplementation, Implementation

IMPLEMENTATIONS = {"embedded": EmbeddedImplementation, "archived": ArchivedImplementation}


@pytest.fixture(params=sorted(IMPLEMENTATIONS))
def implementation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Implementation]:
    made = IMPLEMENTATIONS[request.param](tmp_path / "log")
    yield made
    made.close()


@pytest.fixture
def log(implementation: Implementation) -> Log:
    return implementation.open()
