"""Processes killed while they use a log: a short, seeded slice of what `make torture-log` does for longer."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from headwater.testing.ledger import Account, Ledger
from headwater.testing.verdict import judge
from headwater.testing.victims import create_topics

TOOL = Path(__file__).parents[2] / "tools" / "torture_log.py"


def test_kills_lose_nothing_acknowledged() -> None:
    done = subprocess.run(
        [sys.executable, TOOL, "--kills", "25", "--seed", "3", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = json.loads(done.stdout)
    assert report["failures"] == []
    assert report["figures"]["processes killed"] >= 25
    assert report["figures"]["commits acknowledged"] > 50
    assert report["figures"]["records compared"] > 100


def test_a_record_that_is_lost_would_be_found_out(tmp_path: Path) -> None:
    create_topics(tmp_path / "log")
    told = Account(tried=1, acknowledged={1: 1})
    verdict = judge(tmp_path / "log", Ledger({"appender-1": told, "transfer-1": told, "producer-1": told}), final=True)
    assert verdict.problems == ["appender-1: lost: 1", "transfer-1: lost: 1", "producer-1: lost: 1"]


def test_a_failure_says_how_to_replay_it(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    tool = load_tool()
    broken = tool.Report("power cuts", {"operations": 7}, [("a record is lost", "--power-cuts --only 3:after:1")])
    monkeypatch.setattr(tool, "run", lambda _: iter([broken]))
    monkeypatch.setattr(sys, "argv", [str(TOOL)])
    assert tool.main(["--power-cuts", "--seed", "7"]) == 1
    told = capfd.readouterr().err
    assert "a record is lost" in told
    assert f"{TOOL} --power-cuts --only 3:after:1 --seed 7" in told


def load_tool() -> ModuleType:
    spec = spec_from_file_location("torture_log", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = module_from_spec(spec)
    sys.modules[spec.name] = tool
    spec.loader.exec_module(tool)
    return tool


class TestAccount:
    def test_what_was_tried_and_not_acknowledged_is_in_doubt(self) -> None:
        account = Account()
        for line in ("? 1", "! 1 7", "? 2"):
            account.take(line)
        account.close()
        assert (account.acknowledged, account.doubtful, account.last) == ({1: 7}, {2}, 1)

    @pytest.mark.parametrize(("resumed", "acknowledged"), [(1, {1: 7}), (2, {1: 7, 2: 0})])
    def test_the_log_settles_what_is_in_doubt(self, resumed: int, acknowledged: dict[int, int]) -> None:
        account = Account(tried=2, acknowledged={1: 7}, doubtful={2})
        account.take(f"= {resumed}")
        assert (account.acknowledged, account.doubtful, account.complaints) == (acknowledged, set(), [])

    @pytest.mark.parametrize("resumed", [0, 3])
    def test_a_log_that_forgot_or_made_up_something_is_found_out(self, resumed: int) -> None:
        account = Account(tried=2, acknowledged={1: 7}, doubtful={2})
        account.take(f"= {resumed}")
        assert account.complaints
