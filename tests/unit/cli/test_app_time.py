"""The clock and the watermarks of an application, from the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import headwater as hw
from tests.unit.cli.app_sample import write_application
from tests.unit.cli.conftest import Run

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOURCE = """
import headwater as hw

app = hw.App("plant", log={log!r})
app.clock()
app.topic("clicks", "device string, at timestamp", event_time="at", watermark="10s", producer="device", idle="1m")
app.view("bill", "SELECT device, at FROM clicks WHERE at <= watermark('clicks')")
"""


def test_what_holds_a_watermark_back(headwater: Run, tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(SOURCE.format(log=str(tmp_path / "data")))
    with hw.open(tmp_path / "data") as log:
        log.create("clicks", "device string, at timestamp", event_time="at")
        log.tick(NOON)
        log.append("clicks", [{"device": "old", "at": NOON - timedelta(minutes=5)}])
        log.tick(NOON + timedelta(minutes=1))
        log.append("clicks", [{"device": "a", "at": NOON}, {"device": "b", "at": NOON + timedelta(seconds=5)}])
        log.watermark("clicks", NOON)
        log.append("clicks", [{"device": "b", "at": NOON - timedelta(seconds=30)}])
        log.tick(NOON + timedelta(seconds=90))
    (found,) = headwater("time", file, "--json").objects()
    assert found == {
        "topic": "clicks", "watermark": NOON.isoformat(), "behind_seconds": 90.0, "producers": 3,
        "held_back_by": ["a", "b"], "idle": ["old"], "late": 1, "late_by_seconds": 30.0, "books": None,
    }  # fmt: skip
    ran = headwater("time", file)
    assert ran.err == "The clock is at 2026-01-01T12:01:30+00:00.\n"
    assert "a, b" in ran.out
    assert "1, by up to 30s" in ran.out


def test_there_may_be_no_time(headwater: Run, tmp_path: Path) -> None:
    file = write_application(tmp_path)
    with hw.open(tmp_path / "data") as log:
        log.create("orders", "id bigint, country string, amount decimal(12,2)", key="id")
    ran = headwater("time", file)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "The clock has not ticked yet.\nNo topic has a watermark.\n"
