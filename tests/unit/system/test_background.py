"""Background work that must not die: restarted with pauses, counted, shown, and ended when it is stopped."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable

import pytest

from headwater.system import background
from headwater.system.background import Background, BackgroundState, background_states, kept


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.001)


def failing(times: int, error: Exception, done: threading.Event) -> Callable[[], None]:
    """Fails this many times, then waits until it is done."""
    left = [times]

    def run() -> None:
        if left[0]:
            left[0] -= 1
            raise error
        done.wait(10)

    return run


def state_of(name: str) -> BackgroundState | None:
    return next((state for state in background_states() if state.name == name), None)


def test_it_is_restarted_counted_and_told_in_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()
    with caplog.at_level(logging.WARNING):
        worker = Background("t-restarted", failing(3, sqlite3.OperationalError("no file"), done)).start()
        while (state := worker.state()).restarts < 3 or state.restarting:
            pass
    assert state == state_of("t-restarted")
    assert (state.restarts, state.error) == (3, "OperationalError: no file")
    assert [record.exc_info for record in caplog.records] == [None] * 3
    assert "'t-restarted' failed and restarts in 0.001 s: OperationalError: no file" in caplog.text
    done.set()
    worker.stop()
    assert state_of("t-restarted") is None
    assert not worker.is_alive()


def test_pauses_double_up_to_their_limit(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS_MAX", 0.004)
    done = threading.Event()
    worker = Background("t-doubling", failing(4, ValueError("x"), done)).start()
    while worker.state().restarts < 4:
        pass
    done.set()
    worker.stop()
    pauses = [record.getMessage().split(" restarts in ")[1].split(" s:")[0] for record in caplog.records]
    assert pauses == ["0.001", "0.002", "0.004", "0.004"]


def test_work_that_was_steady_begins_with_the_first_pause(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "STEADY_SECONDS", 0.0)
    done = threading.Event()
    worker = Background("t-steady", failing(3, ValueError("x"), done)).start()
    while worker.state().restarts < 3:
        pass
    done.set()
    worker.stop()
    assert all("restarts in 0.001 s" in record.getMessage() for record in caplog.records)


def test_stopping_does_not_wait_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(background, "PAUSE_SECONDS_MAX", 3600.0)
    worker = Background("t-pausing", failing(1, ValueError("x"), threading.Event())).start()
    while not worker.state().restarting:
        pass
    worker.stop()
    assert not worker.is_alive()


def test_work_that_returns_is_not_restarted() -> None:
    calls: list[int] = []
    worker = Background("t-ending", lambda: calls.append(1)).start()
    worker.join()
    assert calls == [1]
    assert state_of("t-ending") is None


def test_of_several_with_one_name_the_one_that_restarts_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PAUSE_SECONDS", 3600.0)
    done = threading.Event()
    good = Background("t-twins", failing(0, ValueError(), done)).start()
    bad = Background("t-twins", failing(1, ValueError("x"), done)).start()
    while not bad.state().restarting:
        pass
    state = state_of("t-twins")
    assert state is not None
    assert (state.restarting, state.error) == (True, "ValueError: x")
    done.set()
    good.stop()
    bad.stop()


def test_a_coroutine_is_kept_too() -> None:
    async def main() -> list[int]:
        calls: list[int] = []
        reached = asyncio.Event()

        async def run() -> None:
            calls.append(1)
            if len(calls) < 3:
                raise sqlite3.OperationalError("x")
            reached.set()
            await asyncio.sleep(3600)

        task = asyncio.create_task(kept("t-coroutine", run))
        await reached.wait()
        state = state_of("t-coroutine")
        assert state is not None
        assert (state.restarts, state.restarting) == (2, False)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert state_of("t-coroutine") is None
        return calls

    assert len(asyncio.run(main())) == 3
