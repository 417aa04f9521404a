"""Followers that sleep, die and come back, with the view store on PostgreSQL; the same machine as for a directory."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from headwater.engine.whereabouts import FILE
from tests.postgres.servers import Server
from tests.property.engine.test_follower_machine import FollowerMachine

EXAMPLES = max(5, settings().max_examples // 20)


@pytest.mark.timeout(600)
def test_none_of_them_misses_anything(server: Server, database: str) -> None:
    class OnPostgres(FollowerMachine):
        """Every directory says that its store is in a schema of the database."""

        def open(self) -> None:
            place = self.directory / FILE
            if not place.exists():
                address = f"{server.url(database)}&schema=s{uuid.uuid4().hex[:12]}&state={self.directory / 'runs'}"
                place.write_text(json.dumps({"address": address}))
            super().open()
            assert self.driver.store.address.startswith("postgresql:")

    run_state_machine_as_test(OnPostgres, settings=settings(max_examples=EXAMPLES, stateful_step_count=25))
