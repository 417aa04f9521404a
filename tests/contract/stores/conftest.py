"""The view stores that the contract suite is run for; every test in this folder is run for each of them."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.engine.opening import open_store
from headwater.engine.runs import forget_open_runs
from headwater.engine.view_store import ViewStore
from headwater.testing.clock import ManualClock
from tests.postgres.servers import Server

ADDRESSES: dict[str, Callable[[Path], str]] = {
    "path": lambda folder: str(folder / "shop"),
    "file URL": lambda folder: f"file://{folder}/shop",
}
"""Where a store is that does not exist yet. A new kind of store names its address here."""
POSTGRES = "PostgreSQL"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create("18", Path(directory))
        server.start()
        yield server
        server.stop()


@pytest.fixture(params=[*sorted(ADDRESSES), POSTGRES])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    forget_open_runs()
    if request.param == POSTGRES:
        server: Server = request.getfixturevalue("server")
        yield f"{server.url()}&schema=s{uuid.uuid4().hex[:8]}&state={tmp_path / 'runs'}"
    else:
        yield ADDRESSES[request.param](tmp_path)
    forget_open_runs()


@pytest.fixture
def store(address: str, clock: ManualClock) -> Iterator[ViewStore]:
    with open_store(address, clock=clock) as made:
        yield made
