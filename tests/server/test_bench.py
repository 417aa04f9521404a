"""The benchmark of the server runs, and what it reports can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_appends_are_measured(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "bench.server", "--only", "ingest", "--seconds", "1", "--json", str(report)]
    subprocess.run([*command, "--directory", str(tmp_path)], cwd=ROOT, check=True, capture_output=True, timeout=280)
    lines = {line["name"]: line for line in json.loads(report.read_text())["lines"]}
    ingest = lines["ingest over HTTP, batches of 100, durable"]
    assert ingest["value"] > 0
    assert ingest["goal"] == 20_000


@pytest.mark.timeout(300)
def test_queries_are_measured(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "bench.server", "--only", "queries", "--seconds", "1", "--json", str(report)]
    subprocess.run([*command, "--directory", str(tmp_path)], cwd=ROOT, check=True, capture_output=True, timeout=280)
    lines = {line["name"]: line for line in json.loads(report.read_text())["lines"]}
    assert lines["small query over HTTP, p50"]["goal"] == 10
    assert lines["memory of the server after greedy queries"]["value"] < 100
