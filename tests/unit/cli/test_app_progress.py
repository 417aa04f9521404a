"""What a batch looks like as JSON, as a line and on the live table."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from headwater.cli import app_progress
from headwater.cli.app_progress import Board, display, progress_json, progress_line
from headwater.engine.manifest import Size
from headwater.engine.pipeline import BuildProgress, Progress
from headwater.engine.publication import Excluded
from headwater.log.embedded.position import commit_position


def batch(*, behind: int = 0, freshness: timedelta | None = timedelta(milliseconds=1500)) -> Progress:
    return Progress(
        batch=3,
        position=commit_position(12),
        behind=behind,
        records=1000,
        duration=timedelta(milliseconds=500),
        freshness=freshness,
        caught_up=True,
        operators={4: (1000, 2)},
        changes={"revenue": 2},
        excluded=[Excluded("revenue", "orders", 0, 5, "Division by zero.")],
        state={"4/sums": Size(10, 2048, 1), "view/revenue": Size(2, 1024, 1), "view/quiet": Size(7, 512, 1)},
    )


def test_as_json() -> None:
    found = json.loads(json.dumps(progress_json(batch())))
    assert found == {
        "batch": 3,
        "position": "12",
        "behind": 0,
        "caught_up": True,
        "records": 1000,
        "records_per_second": 2000.0,
        "seconds": 0.5,
        "freshness_seconds": 1.5,
        "state_bytes": 3584,
        "views": {"quiet": {"changed": 0, "bytes": 512}, "revenue": {"changed": 2, "bytes": 1024}},
        "build": None,
        "operators": {"4": {"rows_in": 1000, "rows_out": 2}},
        "excluded": [
            {"view": "revenue", "topic": "orders", "partition": 0, "offset": 5, "reason": "Division by zero."}
        ],
    }


def test_as_a_line() -> None:
    assert progress_line(batch()) == (
        "Batch 3: 1,000 records, 2 changed rows of views in 0.5s; position 12, up to date; 1 record set aside."
    )
    assert "position 12, 4 commits behind" in progress_line(batch(behind=4))


def test_on_the_live_table() -> None:
    board = Board("shop", ["revenue", "quiet"])
    board(batch(freshness=None))
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(board.page(batch(behind=1)))
    heading, *lines = [line.split() for line in console.export_text().splitlines() if line.strip()]
    assert " ".join(heading) == "shop position 12, 1 commit behind. Ctrl-C ends it."
    assert lines[1] == ["12", "1", "2,000", "0.5s", "1.5s", "3.5", "KiB", "1,000"]
    assert lines[3:] == [["revenue", "2", "2", "1", "KiB"], ["quiet", "0", "0", "512", "B"]]


def test_as_json_there_is_a_line_per_batch(capsys: pytest.CaptureFixture[str]) -> None:
    with display("shop", ["revenue"], as_json=True) as show:
        show(batch())
        show(batch())
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (2, "")


def test_without_a_terminal_there_is_a_line_with_a_time_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = replace(batch(), excluded=[])
    with display("shop", ["revenue"], as_json=False) as show:
        for _ in range(641):
            show(quiet)
        show(batch())
        show(quiet)
    out, err = capsys.readouterr()
    times, lines = zip(*(line.split(" ", 1) for line in err.splitlines()), strict=True)
    assert all(datetime.fromisoformat(each) <= datetime.now(UTC) for each in times)
    assert (out, lines) == (
        "",
        (
            "Batch 3: 1,000 records, 2 changed rows of views in 0.5s; position 12, up to date.",
            "641 batches: 641,000 records, 1,282 changed rows of views; position 12, up to date; 1 record set aside.",
            "Batch 3: 1,000 records, 2 changed rows of views in 0.5s; position 12, up to date.",
        ),
    )


def test_the_last_batches_before_a_pause_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_progress, "DIGEST_SECONDS", 0.2)
    monkeypatch.setattr(app_progress, "DIGEST_LOOK_SECONDS", 0.01)
    with display("shop", ["revenue"], as_json=False) as show:
        show(replace(batch(), excluded=[]))
        show(replace(batch(behind=2), excluded=[]))
        told = ""
        deadline = time.monotonic() + 30
        while "2 commits behind" not in told and time.monotonic() < deadline:
            told += capsys.readouterr().err
            time.sleep(0.01)
        assert "2 commits behind" in told


def test_a_batch_of_a_build_says_how_far_it_is() -> None:
    build = BuildProgress(["revenue"], 1500, 6000, 12.4)
    line = progress_line(replace(batch(), build=build))
    assert line == "Building revenue: 1,500 of 6,000 records, 12s left; batch 3, in 0.5s."
    assert progress_json(replace(batch(), build=build))["build"] == {
        "views": ["revenue"], "done": 1500, "total": 6000, "seconds_left": 12.4, "error": None,
    }  # fmt: skip
