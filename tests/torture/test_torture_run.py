"""A few faults, so that the torture itself stays in order; `make torture-run N=200` has them all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.postgres.servers import Server, chosen_versions
from tests.torture.torture import RECOVERY_SECONDS_MAX, Torture

FAULTS = int(os.environ.get("HEADWATER_FAULTS", "5"))


@pytest.mark.spark
@pytest.mark.timeout(RECOVERY_SECONDS_MAX * (FAULTS + 3))
def test_nothing_is_lost_torn_or_wrong_whatever_is_killed() -> None:
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create(chosen_versions()[0], Path(directory))
        server.start()
        place = Path(directory) / "bank"
        place.mkdir()
        try:
            with server.database() as database:
                torture = Torture(server, database, place, seed=5)
                survived = list(torture.torture(FAULTS))
        finally:
            server.stop()
    assert len(survived) == FAULTS
    assert torture.reader.positions
    assert torture.follower.events
