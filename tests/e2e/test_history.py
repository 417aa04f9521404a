"""Many processes over one log, killed and stopped at random: no history of them shows an anomaly.

HEADWATER_HISTORY_SECONDS says how long each run takes, HEADWATER_HISTORY_SEEDS with which seeds ("1" or "1-20").
The same from the command line: python -m headwater.testing.workload --seconds 60 --seed 1
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SECONDS = float(os.environ.get("HEADWATER_HISTORY_SECONDS", "6"))
FIRST, _, LAST = os.environ.get("HEADWATER_HISTORY_SEEDS", "1").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)

pytestmark = pytest.mark.timeout(SECONDS * 5 + 120)


def run(folder: Path, **options: float) -> dict[str, Any]:
    """Runs the workload in a process of its own, which forks its clients, and gives its report."""
    given = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run(
        [sys.executable, "-m", "headwater.testing.workload", "--keep", str(folder / "run"), *given],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    report["status"] = done.returncode
    return report


def assert_good(report: dict[str, Any]) -> None:
    assert report["problems"] == []
    assert report["anomalies"] == []
    assert report["status"] == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_torn_or_doubled_when_processes_are_killed(tmp_path: Path, seed: int) -> None:
    report = run(tmp_path, seconds=SECONDS, seed=seed)
    assert_good(report)
    # How much happens in this many seconds is the machine's affair, but something of each kind must.
    assert report["killed"] >= 1
    assert report["processes"] == 9 + report["killed"]
    assert {"send ok", "poll ok", "settle ok"} <= set(report["outcomes"])
    assert report["values"] > 0


def test_nothing_is_lost_or_doubled_when_members_come_and_go(tmp_path: Path) -> None:
    report = run(tmp_path, seconds=SECONDS / 2, seed=SEEDS[0], kills=0, makers=4, auditors=3, readers=1)
    assert_good(report)
    assert (report["killed"], report["stopped"]) == (0, 0)
    assert "send info" not in report["outcomes"]
    assert "settle info" not in report["outcomes"]
    assert report["outcomes"]["settle ok"] > 0
