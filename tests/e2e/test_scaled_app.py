"""An application with its store in PostgreSQL and its files in S3: killed, continued, served, sunk and verified."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb
import httpx
import pytest

from headwater.engine.opening import open_store
from tests.archives.servers import S3Server
from tests.e2e.test_served_app import verified
from tests.postgres.servers import Server

HEADWATER = str(Path(sys.executable).parent / "headwater")
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

APPLICATION = """
import os
import headwater as hw

app = hw.App("shop", log="./data", store=os.environ["STORE"], state=os.environ["STATE"], master="local[2]")
app.topic("orders", "id bigint, country string, amount decimal(12,2)", key="id")
app.view("revenue", "SELECT country, sum(amount) AS revenue FROM orders GROUP BY country", key="country")
app.view("largest", "SELECT * FROM revenue ORDER BY revenue DESC LIMIT 1")
app.sink("lake", view="revenue", key="country", to=hw.sinks.Parquet("./lake", every=0))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create("18", Path(directory))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    started = S3Server()
    yield started
    started.close()


@pytest.fixture
def places(server: Server, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses of the store and of the state, and credentials, for this process and its children."""
    monkeypatch.setenv("STORE", server.url())
    monkeypatch.setenv("STATE", f"s3://bucket/views?endpoint_override={s3.url}&cache={tmp_path / 'cache'}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@contextmanager
def running(directory: Path, command: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    with subprocess.Popen(
        [HEADWATER, command, "app.py", "--port", "0"], cwd=directory, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as program:  # fmt: skip
        try:
            assert program.stderr is not None
            line = program.stderr.readline()
            assert line.startswith("Serving shop at http://localhost:"), line + program.stderr.read()
            with httpx.Client(base_url=line.split()[-1], timeout=60) as client:
                yield client, program
            if program.poll() is None:
                program.send_signal(signal.SIGTERM)
                program.communicate(timeout=60)
                assert program.returncode == 0
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.2)


def order(client: httpx.Client, number: int) -> str:
    row = {"id": number, "country": "DE" if number % 2 else "FR", "amount": f"{number}.50"}
    position: str = client.post("/topics/orders/records", json=row).json()["position"]
    return position


def _answers(client: httpx.Client, url: str) -> bool:
    return client.get(url).status_code != 504


def revenue(client: httpx.Client, position: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for country in ("DE", "FR"):
        url = f"/views/revenue/rows/{country}?at_least={position}&wait=60"
        # Spark may take longer to start than a request may wait.
        until(partial(_answers, client, url))
        answer = client.get(url)
        assert answer.status_code in (200, 404), answer.text
        found |= {row["country"]: row["revenue"] for row in answer.json().get("rows", ())}
    return found


def in_lake(directory: Path) -> dict[str, str]:
    """What DuckDB reads from the sink's files."""
    try:
        files = json.loads((directory / "lake" / "manifest.json").read_text())["files"]
    except FileNotFoundError:
        return {}
    found = duckdb.read_parquet([str(directory / "lake" / name) for name in files]).fetchall() if files else []
    return {row[0]: str(row[1]) for row in found}


def test_store_and_state_are_elsewhere(tmp_path: Path, server: Server, s3: S3Server, places: None) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    pipeline = tmp_path / "data" / "pipelines" / "shop"
    with running(tmp_path, "run") as (client, program):
        until(lambda: client.get("/readyz").status_code == 200)
        for number in range(1, 4):
            revenue(client, order(client, number))
        last = order(client, 4)
        # Somewhere in the batch of the last order.
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    with open_store(pipeline, create=False) as store:
        current = store.current()
        assert current is not None
        assert store.address.startswith("postgresql://")
        assert {blob.name for blob in store.blobs.list()}
    with running(tmp_path, "run") as (client, _):
        until(lambda: client.get("/readyz").status_code == 200)
        assert revenue(client, last) == {"DE": "5.00", "FR": "7.00"}
        position = order(client, 5)
        assert revenue(client, position) == {"DE": "10.50", "FR": "7.00"}
        for view in ("revenue", "largest"):
            assert verified(client, view)["equal"] is True
        answer = client.post("/query", json={"sql": "SELECT sum(revenue) AS total FROM revenue"}).json()
        assert answer["rows"] == [{"total": "17.50"}]
        until(lambda: in_lake(tmp_path).get("DE") == "10.50")
    with running(tmp_path, "serve") as (client, _):
        assert revenue(client, position) == {"DE": "10.50", "FR": "7.00"}
    assert not (pipeline / "store.db").exists()
    assert not (pipeline / "runs").exists()
    assert any(key.endswith(".runs") for key in s3.keys("views/"))
