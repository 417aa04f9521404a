"""Heartbeats: who runs, since when, and what it has to tell, seen from another process."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import DiskFull
from headwater.system import heartbeat
from headwater.system.background import background_states
from headwater.system.heartbeat import FILE, Heart, read_heartbeat
from headwater.testing.clock import ManualClock

SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_somebody_who_beats_runs_and_somebody_silent_does_not(tmp_path: Path, clock: ManualClock) -> None:
    assert read_heartbeat(tmp_path) is None
    with Heart(tmp_path, clock=clock) as heart:
        seen = read_heartbeat(tmp_path)
        assert seen is not None
        assert (seen.pid, seen.started_at, seen.beat_at) == (os.getpid(), clock.now(), clock.now())
        clock.advance(10 * SECOND)
        assert seen.runs(clock.now())
        clock.advance(SECOND)
        assert not seen.runs(clock.now())
        assert seen.silent_seconds(clock.now()) == 11
        heart.beat()
        seen = read_heartbeat(tmp_path)
        assert seen is not None
        assert seen.runs(clock.now())
        clock.set_back(timedelta(hours=1))
        assert not seen.runs(clock.now())


def test_an_end_counts_at_once_and_its_error_is_kept(tmp_path: Path, clock: ManualClock) -> None:
    with pytest.raises(DiskFull), Heart(tmp_path, clock=clock) as heart:
        raise DiskFull("x")
    heart.beat()
    heart.end()
    seen = read_heartbeat(tmp_path)
    assert seen is not None
    assert not seen.runs(clock.now())
    assert seen.ended_at == clock.now()
    assert seen.error is not None
    assert (seen.error["code"], "No space is left" in seen.error["message"]) == ("disk_full", True)
    assert "heartbeat" not in {state.name for state in background_states()}


def test_what_it_has_to_tell_is_told_with_the_next_beat(tmp_path: Path, clock: ManualClock) -> None:
    told: dict[str, Any] = {"retries": 0}
    with Heart(tmp_path, clock=clock, about=lambda: told) as heart:
        file = (tmp_path / FILE).stat().st_ino
        heart.beat()
        assert (tmp_path / FILE).stat().st_ino == file, "a beat alone writes nothing"
        told["retries"] = 3
        heart.beat()
        seen = read_heartbeat(tmp_path)
        assert seen is not None
        assert seen.about == {"retries": 3}


def test_who_is_taken_over_does_not_end_the_other(tmp_path: Path, clock: ManualClock) -> None:
    first = Heart(tmp_path, clock=clock, about=lambda: {"name": "first"}).start()
    second = Heart(tmp_path, clock=clock, about=lambda: {"name": "second"}).start()
    first.end(DiskFull("x"))
    seen = read_heartbeat(tmp_path)
    assert seen is not None
    assert (seen.about, seen.runs(clock.now())) == ({"name": "second"}, True)
    second.end()
    seen = read_heartbeat(tmp_path)
    assert seen is not None
    assert not seen.runs(clock.now())


def test_a_file_that_is_gone_is_written_again(tmp_path: Path, clock: ManualClock) -> None:
    with Heart(tmp_path, clock=clock) as heart:
        (tmp_path / FILE).unlink()
        heart.beat()
        assert read_heartbeat(tmp_path) is not None


def test_a_beat_needs_no_room(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"n": 0}

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with Heart(tmp_path, clock=clock, about=lambda: told) as heart:
        monkeypatch.setattr(Path, "write_text", full)
        told["n"] = 1
        clock.advance(SECOND)
        heart.beat()
        seen = read_heartbeat(tmp_path)
        assert seen is not None
        assert (seen.beat_at, seen.about) == (clock.now(), {"n": 0})


def test_it_beats_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.001)
    beaten = threading.Event()
    beats: list[int] = []

    def about() -> dict[str, Any]:
        beats.append(1)
        if len(beats) > 3:
            beaten.set()
        return {}

    with Heart(tmp_path, about=about):
        assert beaten.wait(20)


def test_a_file_that_is_no_heartbeat_is_none(tmp_path: Path) -> None:
    for text in ("", "{}", "[1]", '{"pid": 1, "other": 2}'):
        (tmp_path / FILE).write_text(text)
        assert read_heartbeat(tmp_path) is None
