"""The benchmark of sinks runs, and what it reports can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_contents_and_changes_are_measured_against_the_floor(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "bench.sinks", "--rows", "2000", "--batches", "2", "--seconds", "0"]
    for name in ("postgres", "redis", "topic"):
        command += ["--only", name]
    subprocess.run([*command, "--json", str(report)], cwd=ROOT, check=True, capture_output=True, timeout=280)
    held = json.loads(report.read_text())
    lines = {line["name"]: line for line in held["lines"]}
    for name in ("PostgreSQL", "Redis", "topic"):
        first = lines[f"{name}: first content"]
        assert first["value"] > 0
        assert first["ratio"] > 0
        assert first["goal"] > 0
        assert lines[f"{name}: changes that wait"]["value"] > 0
    assert len(held["floors"]) == 6
