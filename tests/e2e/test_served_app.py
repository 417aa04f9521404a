"""An application as people use it over HTTP: one process takes events, keeps views, pushes changes and verifies."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.server.shop import Event, added_up, following

HEADWATER = str(Path(sys.executable).parent / "headwater")
SECONDS_MAX = 400
pytestmark = [pytest.mark.spark, pytest.mark.timeout(SECONDS_MAX)]

APPLICATION = """
import headwater as hw

app = hw.App("shop", log="./data", master="local[2]")
app.topic("orders", "id bigint, country string, amount decimal(12,2)", key="id")
app.view("revenue", "SELECT country, sum(amount) AS revenue FROM orders GROUP BY country", key="country")
app.view("largest", "SELECT * FROM revenue ORDER BY revenue DESC LIMIT 1")
"""


@contextmanager
def running(directory: Path, *arguments: str) -> Iterator[httpx.Client]:
    """`headwater` with a server, until the block ends, and then by SIGTERM."""
    command = [HEADWATER, *arguments, "--port", "0"]
    with subprocess.Popen(command, cwd=directory, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stderr is not None
            line = program.stderr.readline()
            assert line.startswith("Serving shop at http://localhost:"), line
            with httpx.Client(base_url=line.split()[-1], timeout=60) as client:
                yield client
            program.send_signal(signal.SIGTERM)
            program.communicate(timeout=60)
            assert program.returncode == 0
        finally:
            program.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.2)


def verified(client: httpx.Client, view: str) -> dict[str, object]:
    assert client.post(f"/views/{view}/verify").status_code == 202
    until(lambda: client.get(f"/views/{view}/verify").json()["status"] in ("done", "failed"))
    state: dict[str, object] = client.get(f"/views/{view}/verify").json()
    assert state["status"] == "done", state
    result = state["result"]
    assert isinstance(result, dict)
    return result


def test_events_go_in_and_views_come_out(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    with running(tmp_path, "run", "app.py") as client:
        until(lambda: client.get("/readyz").status_code == 200)
        got: list[Event] = []
        thread = threading.Thread(target=follow, args=(str(client.base_url), got), daemon=True)
        thread.start()
        position = [read_what_was_written(client, number) for number in range(1, 6)][-1]
        assert client.get("/views/revenue/rows/DE").json()["rows"] == [{"country": "DE", "revenue": "10.50"}]
        total = client.post("/query", json={"sql": "SELECT sum(revenue) AS total FROM revenue"}).json()
        assert total["rows"] == [{"total": "17.50"}]
        until(lambda: bool(got) and got[-1].data["position"] == position)
        assert sorted(added_up(got)) == [
            '{"country": "DE", "revenue": "10.50"}',
            '{"country": "FR", "revenue": "7.00"}',
        ]
        # While the pipeline runs, in the same process.
        assert verified(client, "revenue")["equal"] is True
        definition = client.get("/views/largest/definition").json()
        assert definition["view"]["reads"] == ["revenue"]
        assert {one["title"] for one in definition["explanation"]["origins"]} == {"topic orders"}
        edges = {(one["from"], one["to"]) for one in client.get("/flow").json()["edges"]}
        assert edges >= {("topic:orders", "view:revenue"), ("view:revenue", "view:largest")}
        batches = client.get("/pipelines").json()["pipelines"][0]["batches"]
        assert all(one["freshness_seconds"] is not None for one in batches if one["records"])
    with running(tmp_path, "serve", "app.py") as client:
        assert client.get("/views/revenue/rows/FR").json()["rows"] == [{"country": "FR", "revenue": "7.00"}]
        assert client.get("/views/revenue/definition").json()["view"]["verification"]["result"]["equal"] is True
        assert verified(client, "largest")["equal"] is True


def read_what_was_written(client: httpx.Client, number: int) -> str:
    """Appends an order and reads its country's revenue, at that position or later."""
    country = "DE" if number % 2 else "FR"
    order = {"id": number, "country": country, "amount": f"{number}.50"}
    position: str = client.post("/topics/orders/records", json=order).json()["position"]
    row = client.get(f"/views/revenue/rows/{country}?at_least={position}&wait=60")
    assert row.status_code == 200, row.text
    assert int(row.json()["position"]) >= int(position)
    return position


def follow(url: str, got: list[Event]) -> None:
    with following(url.rstrip("/"), "/views/revenue/changes") as events:
        for event in events:
            if event.name == "dropped":
                return
            got.append(event)
