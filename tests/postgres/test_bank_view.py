"""A view over a bank that many clients change: at every published position all balances add up to 0."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater as hw
from headwater.engine.pipeline import Progress
from headwater.log.embedded.position import commit_of
from tests.postgres.bank import Clients, open_bank
from tests.postgres.servers import Server


@pytest.mark.usefixtures("spark")
def test_the_total_is_nothing_at_every_position(
    source: psycopg.Connection[Any], server: Server, database: str, tmp_path: Path
) -> None:
    open_bank(source)
    seen: list[tuple[int, list[dict[str, Any]]]] = []
    clients = Clients(server, database, 4, seed=5, pause=0.005)
    try:
        with hw.App(database, log=tmp_path / "log") as app:
            app.postgres(server.url(database), tables=["checking", "savings"], heartbeat=timedelta(seconds=0.2))
            app.view(
                "total",
                f"SELECT sum(balance) AS total, count(*) AS accounts FROM (SELECT balance FROM {database}.checking "
                f"UNION ALL SELECT balance FROM {database}.savings) both",
            )

            def note(progress: Progress) -> None:
                seen.append((commit_of(progress.position), app.read("total").to_pylist()))

            thread = threading.Thread(target=app.run, args=(note,))
            thread.start()
            deadline = time.monotonic() + 120
            while len(seen) < 8 and time.monotonic() < deadline:
                time.sleep(0.1)
            clients.stop()
            app.stop()
            thread.join()
            app.catch_up()
            assert app.verify("total").equal
    finally:
        clients.stop()
    filled = [row["total"] for _, rows in seen for row in rows if row["accounts"]]
    assert len(filled) >= 2
    assert clients.transfers > 50
    assert set(filled) == {0}
