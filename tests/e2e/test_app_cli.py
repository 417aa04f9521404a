"""An application as a shell runs it: built, followed, asked, interrupted; and Spark says nothing of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog

HEADWATER = str(Path(sys.executable).parent / "headwater")
SECONDS_MAX = 300
pytestmark = [pytest.mark.spark, pytest.mark.timeout(SECONDS_MAX)]

APPLICATION = """
import pyarrow.compute as pc
import headwater as hw

app = hw.App("shop", log="./data", master="local[2]")
app.topic("orders", "id bigint, country string, amount decimal(12,2)", key="id")
app.function("shouted", lambda text: pc.utf8_upper(text), "string")
app.view("revenue", "SELECT shouted(country) AS country, sum(amount) AS revenue FROM orders GROUP BY 1")
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APPLICATION)
    (tmp_path / "largest.sql").write_text("SELECT country, revenue\nFROM revenue ORDER BY revenue DESC LIMIT 1;\n")
    return tmp_path


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HEADWATER, *arguments], cwd=directory, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )


def append(directory: Path, *orders: tuple[int, str, str]) -> None:
    with EmbeddedLog(directory / "data", upkeep=False) as log:
        log.create("orders", "id bigint, country string, amount decimal(12,2)", key="id", exist_ok=True)
        log.append("orders", [dict(zip(("id", "country", "amount"), order, strict=True)) for order in orders])


def asked(directory: Path, sql: str) -> list[dict[str, object]]:
    ran = run(directory, "query", "app.py", sql, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_views_are_followed_until_ctrl_c(directory: Path) -> None:
    append(directory, (1, "de", "2.50"))
    command = [HEADWATER, "run", "app.py", "--json", "--no-server"]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            while json.loads(program.stdout.readline())["position"] != "1":
                pass
            assert asked(directory, "SELECT * FROM largest") == [{"country": "DE", "revenue": "2.50"}]
            append(directory, (2, "fr", "7.00"))
            assert json.loads(program.stdout.readline())["position"] == "2"
            program.send_signal(signal.SIGINT)
            rest, errors = program.communicate(timeout=SECONDS_MAX)
        finally:
            program.kill()
    # Not a line of Spark's own.
    assert (program.returncode, rest) == (0, "")
    assert [line.split(",")[0] for line in errors.splitlines()] == ["Stopping after the current batch"]
    assert asked(directory, "SELECT country FROM revenue ORDER BY 1") == [{"country": "DE"}, {"country": "FR"}]


def test_views_are_built_once_and_verified(directory: Path) -> None:
    append(directory, (1, "de", "2.50"), (2, "de", "1.00"))
    built = run(directory, "run", "app.py", "--once")
    assert (built.returncode, built.stdout) == (0, "")
    assert [line.split(" ", 1)[1].split(":")[0] for line in built.stderr.splitlines()] == ["Batch 1", "Batch 2"]
    verified = run(directory, "verify", "app.py")
    assert verified.returncode == 0, verified.stderr
    assert verified.stderr == "2 views verified: all are correct (doubles to within 1e-09 of their size).\n"
    assert [line.split()[-1] for line in verified.stdout.splitlines()[1:]] == ["right", "right"]
