"""Spark as the caller has it, in processes that were started by an absolute path with next to nothing around them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("own_session.py")
FOUND = {
    "view": [{"id": 1, "twice": 2, "day": "2026-01-01 20:00"}],
    "topic": {"id": 1, "at": 1767297600},
    "stream": ["a"],
    "verified": True,
}


def run(directory: Path, whose: str) -> dict[str, Any]:
    """What the script prints, with no environment but a home and a Java."""
    java = shutil.which("java")
    home = os.environ.get("JAVA_HOME") or str(Path(java or "/usr").resolve().parents[1])
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), str(directory / "data"), whose],
        env={"PATH": "/usr/bin:/bin", "HOME": str(directory), "JAVA_HOME": home},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.timeout(600)
def test_a_session_of_the_caller_keeps_its_settings(tmp_path: Path) -> None:
    found = run(tmp_path, "given")
    assert {name: found[name] for name in FOUND} == FOUND
    assert found["unchanged"]
    assert (found["zone"], found["default"]) == ("Asia/Tokyo", "Asia/Tokyo")


@pytest.mark.timeout(600)
def test_settings_are_for_a_session_of_ours(tmp_path: Path) -> None:
    found = run(tmp_path, "ours")
    assert {name: found[name] for name in FOUND} == FOUND
    assert found["label"] == "set"
