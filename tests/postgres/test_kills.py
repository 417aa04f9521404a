"""A capture and its server, killed: nothing is lost and nothing is there twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.servers import Server
from tests.postgres.torture import Torture


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("spark")
def test_kills_of_capture_and_server(server: Server, tmp_path: Path) -> None:
    with server.database() as database:
        assert Torture(server, database, tmp_path, seed=1, views=True).run(rounds=5) > 10
