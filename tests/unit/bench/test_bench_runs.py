"""The benchmark of the log runs and says all that it has to; how fast is not for a test to judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

LINES = [
    "batch append, 1 partition",
    "batch append, 4 partitions by key",
    "dict append",
    "JSON lines append",
    "single appends, one thread",
    "single appends, 16 threads",
    "16 producers in threads",
    "16 producers in threads, acknowledgement p99",
    "2 producers in processes",
    "2 producers in processes, acknowledgement p99",
    "columnar read, unsealed",
    "columnar read, sealed",
    "columnar read, sealed, 2 columns",
    "archived read",
    "archived read, cached",
    "archiving",
    "wake-up in another process, p50",
    "wake-up in another process, p99",
    "open, 50 segments",
    "append after 200,000 rows",
]
WITHOUT_GOAL = {
    "dict append",
    "JSON lines append",
    "single appends, one thread",
    "single appends, 16 threads",
    "columnar read, sealed, 2 columns",
    "archived read",
    "archived read, cached",
    "archiving",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], Path]:
    """What a quick run prints, what it writes, and where it worked."""
    directory, file = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("answer") / "bench.json"
    options = ["--quick", "--markdown", "--directory", str(directory), "--json", str(file)]
    command = [sys.executable, str(ROOT / "bench" / "log.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text()), directory


def test_every_line_is_there_with_its_figure(run: tuple[str, dict[str, Any], Path]) -> None:
    _, answer, _ = run
    assert [line["name"] for line in answer["lines"]] == LINES
    assert all(line["value"] >= 0 for line in answer["lines"])


def test_a_line_with_a_goal_has_a_verdict_and_a_floor(run: tuple[str, dict[str, Any], Path]) -> None:
    _, answer, _ = run
    for line in answer["lines"]:
        has_goal = line["name"] not in WITHOUT_GOAL and "processes" not in line["name"]
        assert (line["goal"] is not None) is has_goal, line["name"]
        assert (line["verdict"] in {"ok", "missed"}) is has_goal, line["name"]
        if has_goal:
            assert line["floor"]
            assert line["ratio"] >= 0


def test_the_floors_and_the_machine_are_named(run: tuple[str, dict[str, Any], Path]) -> None:
    _, answer, _ = run
    assert len(answer["floors"]) == 10
    assert all(floor["value"] > 0 for floor in answer["floors"])
    assert {"cores", "file system", "python", "pyarrow", "sqlite"} <= set(answer["machine"])
    assert answer["settings"]["scale"] == "quick"


def test_markdown_has_a_row_for_everything(run: tuple[str, dict[str, Any], Path]) -> None:
    text, answer, _ = run
    rows = [row.split(" | ")[0].removeprefix("| ") for row in text.splitlines() if row.startswith("| ")]
    assert rows == ["floor", "---", *[floor["name"] for floor in answer["floors"]], "line", "---", *LINES]


def test_nothing_is_left_behind(run: tuple[str, dict[str, Any], Path]) -> None:
    assert list(run[2].iterdir()) == []


def test_a_part_that_is_none_is_refused() -> None:
    command = [sys.executable, str(ROOT / "bench" / "log.py"), "--only", "reeds"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "reeds" in done.stderr
