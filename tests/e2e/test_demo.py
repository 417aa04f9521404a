"""The demo as people run it: it comes up, survives what is done to it, proves itself right, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.demo.database import free_port

HEADWATER = str(Path(sys.executable).parent / "headwater")
SECONDS_MAX = 1800
pytestmark = [pytest.mark.spark, pytest.mark.timeout(SECONDS_MAX)]


def until(true: Callable[[], bool], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.2)


@pytest.fixture
def folder() -> Iterator[Path]:
    # The path of a socket is short, and the one that pytest makes is not.
    with tempfile.TemporaryDirectory(prefix="hwdemo") as made:
        # If root runs the tests, somebody else runs PostgreSQL.
        Path(made).chmod(0o711)
        yield Path(made)


@contextmanager
def demo(folder: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    port = free_port()
    command = [HEADWATER, "demo", "--no-browser", "--port", str(port)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with (
        (folder.parent / f"{folder.name}.log").open("w+") as said,
        subprocess.Popen(command, stderr=said, text=True, env=environment) as program,
        httpx.Client(base_url=f"http://localhost:{port}", timeout=60) as client,
    ):
        try:
            yield program, client
        except BaseException:
            said.seek(0)
            sys.stderr.write(said.read())
            raise
        finally:
            program.kill()
            Path(said.name).unlink()


def answers(client: httpx.Client, path: str) -> bool:
    with suppress(httpx.TransportError):
        return client.get(path).status_code == 200
    return False


def rows(client: httpx.Client, view: str) -> int:
    found: int = client.get(f"/views/{view}?limit=1").json()["matching"]
    return found


def broken(client: httpx.Client, action: str) -> dict[str, Any]:
    """Does something bad, and returns what became of it."""
    number = client.post(f"/demo/{action}").json()["number"]

    def incident() -> dict[str, Any]:
        found: list[dict[str, Any]] = client.get("/demo").json()["incidents"]
        return next(one for one in found if one["number"] == number)

    until(lambda: incident()["state"] in ("green", "red", "failed"))
    return incident()


def holders(folder: Path) -> list[str]:
    """Processes that have to do with a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            with suppress(OSError):
                seen = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if str(folder).encode() in seen:
                    found.append(f"{entry.name}: {(entry / 'cmdline').read_bytes()!r}")
    return found


def test_the_demo(folder: Path) -> None:
    with demo(folder) as (program, client):
        until(lambda: answers(client, "/readyz"))
        views = [view["name"] for view in client.get("/views").json()["views"]]
        assert len(views) == 12
        until(lambda: all(rows(client, view) for view in views))

        poison = broken(client, "poison")
        assert poison["state"] == "green", poison
        letters = client.get("/dead-letters").json()["letters"]
        assert {(letter["kind"], letter["view"]) for letter in letters} == {
            ("rejected", None),
            ("refused", "attention_by_category"),
        }

        before = {one["name"]: one["pid"] for one in client.get("/demo").json()["processes"]}
        killed = broken(client, "kill-pipeline")
        assert killed["state"] == "green", killed
        assert killed["verified"] == dict.fromkeys(views, "right")
        after = {one["name"]: one["pid"] for one in client.get("/demo").json()["processes"]}
        assert {name for name in before if before[name] != after[name]} == {"pipeline"}

        assert killed["audited"] == dict.fromkeys(("search", "report", "lake"), "equal")

        edited = broken(client, "edit-report")
        assert edited["state"] == "green", edited
        assert edited["audited"] == {"search": "repaired", "report": "equal", "lake": "equal"}
        found = client.get("/demo/search?words=tent").json()
        assert 0 < found["matching"] < found["rows"]
        assert Decimal(found["paid"]) == Decimal(found["revenue"]) > 0

        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0
        assert holders(folder) == []
        assert list(folder.iterdir()) == []


def test_a_demo_that_is_killed_takes_its_processes_with_it(folder: Path) -> None:
    with demo(folder) as (program, client):
        until(lambda: answers(client, "/healthz"))
        until(lambda: "pipeline" in {one["name"] for one in client.get("/demo").json()["processes"] if one["pid"]})
        program.kill()
        program.wait()
        until(lambda: holders(folder) == [], 60)
