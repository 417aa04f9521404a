"""A whole application that is killed while it sends webhooks: what its receiver holds is the view."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.webhooks.receiver import SECRET, Receiver, receiving

HEADWATER = str(Path(sys.executable).parent / "headwater")
pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

APPLICATION = """
import headwater as hw

app = hw.App("shop", log="./data", master="local[2]")
app.topic("orders", "id bigint, country string, amount decimal(12,2)", key="id")
app.view("revenue", "SELECT country, sum(amount) AS revenue FROM orders GROUP BY country", key="country")
app.webhook_out("accounting", view="revenue", url={url!r}, secret={secret!r}, start="content", allow_private=True)
"""


@contextmanager
def killed_at_the_end(directory: Path) -> Iterator[httpx.Client]:
    command = [HEADWATER, "run", "app.py", "--port", "0"]
    with subprocess.Popen(command, cwd=directory, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stderr is not None
            line = program.stderr.readline()
            assert line.startswith("Serving shop at http://localhost:"), line
            with httpx.Client(base_url=line.split()[-1], timeout=60) as client:
                yield client
        finally:
            program.kill()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.05)


def held(receiver: Receiver) -> dict[str, int]:
    total: Counter[str] = Counter()
    for message in receiver.messages():
        if message["type"] == "view.snapshot" and message["part"] == 1:
            total.clear()
        for change in message["changes"]:
            total[json.dumps(change["row"], sort_keys=True)] += change["weight"]
    return {row: weight for row, weight in total.items() if weight}


def test_a_receiver_holds_the_view_of_an_application_that_is_killed(tmp_path: Path) -> None:
    rows: dict[str, int] = {}
    with receiving() as receiver:
        (tmp_path / "app.py").write_text(APPLICATION.format(url=receiver.url, secret=SECRET))
        for started in range(2):
            with killed_at_the_end(tmp_path) as client:
                for number in range(10):
                    order = {"id": 10 * started + number, "country": "DE" if number % 2 else "FR", "amount": number}
                    position = client.post("/topics/orders/records", json=order).json()["position"]
                if started == 0:
                    # It is killed as soon as something was sent, wherever it is then.
                    until(lambda: held(receiver))
                    continue
                # Spark takes as long to start as the machine lets it.
                until(lambda: client.get(f"/views/revenue?at_least={position}").status_code == 200)  # noqa: B023
                shown = client.get("/views/revenue")
                rows = {json.dumps(row, sort_keys=True): 1 for row in shown.json()["rows"]}
                until(lambda: held(receiver) == rows)  # noqa: B023 - it is called at once
                until(lambda: _sink(client)["lag"] == 0)
                assert _sink(client)["status"] == "running"
    assert rows == {'{"country": "DE", "revenue": "50.00"}': 1, '{"country": "FR", "revenue": "40.00"}': 1}


def _sink(client: httpx.Client) -> dict[str, object]:
    (node,) = [one for one in client.get("/flow").json()["nodes"] if one["id"] == "sink:accounting"]
    found: dict[str, object] = node
    return found
