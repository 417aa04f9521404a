"""Waking followers: in this process and in others, without missing a commit and without asking again and again."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.system import wake as module
from headwater.system.wake import LOOK_EVERY_SECONDS, Wake

# Long enough for the slowest machine; a wait that is woken ends long before.
PLENTY = 20.0

TOUCH = """
import sys
from pathlib import Path
from headwater.system.wake import Wake
Wake(Path(sys.argv[1])).touch()
"""


@contextmanager
def opened(path: Path) -> Iterator[Wake]:
    wake = Wake(path)
    try:
        yield wake
    finally:
        wake.close()


@pytest.fixture
def wake(tmp_path: Path) -> Iterator[Wake]:
    with opened(tmp_path / "wake") as wake:
        yield wake


@pytest.fixture
def sleepy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers do not look for themselves: if one wakes up in time, it was woken."""
    monkeypatch.setattr(module, "LOOK_EVERY_SECONDS", PLENTY)


def seconds_to_wake(wake: Wake, ticket: int, seconds: float = PLENTY) -> float:
    began = time.monotonic()
    wake.wait(ticket, seconds)
    return time.monotonic() - began


OTHERS: list[threading.Thread] = []


@pytest.fixture(autouse=True)
def others() -> None:
    """What other tests have left running is not looked at."""
    OTHERS[:] = threading.enumerate()


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headwater-wake" and thread not in OTHERS]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.usefixtures("sleepy")
def test_a_touch_wakes_who_waits(wake: Wake) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(seconds_to_wake, wake, wake.ticket())
        wake.touch()
        assert waiting.result() < PLENTY / 2


@pytest.mark.usefixtures("sleepy")
def test_a_touch_wakes_everybody_who_waits(wake: Wake) -> None:
    ticket = wake.ticket()
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(seconds_to_wake, wake, ticket) for _ in range(8)]
        wake.touch()
        assert max(each.result() for each in waiting) < PLENTY / 2


@pytest.mark.usefixtures("sleepy")
def test_a_touch_through_another_handle_wakes(wake: Wake, tmp_path: Path) -> None:
    ticket = wake.ticket()
    with opened(tmp_path / "wake") as other:
        other.touch()
    assert seconds_to_wake(wake, ticket) < PLENTY / 2


@pytest.mark.usefixtures("sleepy")
def test_a_touch_in_another_process_wakes(wake: Wake, tmp_path: Path) -> None:
    ticket = wake.ticket()
    subprocess.run([sys.executable, "-c", TOUCH, str(tmp_path / "wake")], check=True)
    assert seconds_to_wake(wake, ticket) < PLENTY / 2


@pytest.mark.usefixtures("sleepy")
def test_a_touch_after_the_ticket_and_before_the_wait_is_not_missed(wake: Wake) -> None:
    for _ in range(100):
        ticket = wake.ticket()
        wake.touch()
        assert seconds_to_wake(wake, ticket) < PLENTY / 2


def test_without_a_touch_the_wait_lasts_as_long_as_asked(wake: Wake) -> None:
    assert seconds_to_wake(wake, wake.ticket(), 0.05) >= 0.05


def test_who_is_not_woken_looks_now_and_then(wake: Wake) -> None:
    assert LOOK_EVERY_SECONDS <= seconds_to_wake(wake, wake.ticket(), float("inf")) < PLENTY


@pytest.mark.usefixtures("sleepy")
def test_closing_wakes_who_waits_and_ends_the_thread(tmp_path: Path) -> None:
    files = open_files()
    wake = Wake(tmp_path / "wake")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(seconds_to_wake, wake, wake.ticket())
        wake.close()
        assert waiting.result() < PLENTY / 2
    wake.close()
    assert not watchers()
    assert open_files() == files


@pytest.mark.usefixtures("sleepy")
def test_after_closing_nothing_is_written_and_nobody_waits(tmp_path: Path) -> None:
    wake = Wake(tmp_path / "wake")
    wake.close()
    innocent = tmp_path / "innocent"
    numbers = [os.open(innocent, os.O_RDWR | os.O_CREAT) for _ in range(8)]
    wake.touch()
    assert innocent.read_bytes() == b""
    assert seconds_to_wake(wake, wake.ticket()) < PLENTY / 2
    assert not watchers()
    for number in numbers:
        os.close(number)


def test_nobody_watches_before_somebody_waits(tmp_path: Path) -> None:
    with opened(tmp_path / "wake") as wake:
        wake.touch()
        assert not watchers()
        wake.ticket()
        wake.ticket()
        assert len(watchers()) == 1


def test_a_full_disk_is_not_the_toucher_s_concern(wake: Wake, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    wake.touch()


@pytest.mark.usefixtures("sleepy")
def test_many_open_files_do_not_matter(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    numbers = []
    try:
        numbers = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
        with opened(tmp_path / "wake") as wake:
            ticket = wake.ticket()
            wake.touch()
            assert seconds_to_wake(wake, ticket) < PLENTY / 2
    finally:
        for number in numbers:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("sleepy")
def test_where_the_kernel_tells_nothing_followers_look_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_watch", lambda path: None)
    with opened(tmp_path / "wake") as wake:
        assert seconds_to_wake(wake, wake.ticket()) < PLENTY / 2
