"""What tests against PostgreSQL share: a server of each version, a database, a log, and a capture between them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater as hw
from headwater.connectors.postgres.address import address_of
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.options import CaptureOptions
from headwater.log.port import Log
from tests.postgres.servers import Server, chosen_versions

Make = Callable[..., Capture]


@pytest.fixture(scope="session", params=chosen_versions())
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create(request.param, Path(directory))
        server.start()
        yield server
        server.stop()


@pytest.fixture
def share(request: pytest.FixtureRequest, server: Server) -> int:
    """What large amounts are divided by: the first server gets all of them, the others enough to show a difference."""
    return 1 if request.node.callspec.params["server"] == chosen_versions()[0] else 5


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    with server.database() as name:
        yield name


@pytest.fixture
def source(server: Server, database: str) -> Iterator[psycopg.Connection[Any]]:
    with server.connect(database) as connection:
        yield connection


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with hw.open(tmp_path / "log") as log:
        yield log


@pytest.fixture
def make(server: Server, database: str, log: Log, tmp_path: Path) -> Make:
    """A capture of the database into the log, under a name that no other database of the server uses."""

    def make(*tables: str, **options: Any) -> Capture:
        url = options.pop("url", server.url(database))
        return Capture(
            log,
            CaptureOptions(
                options.pop("name", "s" + database),
                address_of(url),
                tables=tables or ("*",),
                heartbeat=options.pop("heartbeat", timedelta(seconds=0.2)),
                directory=tmp_path / "capture",
                **options,
            ),
        )

    return make
