"""The lock between processes: one holder at a time, whatever becomes of those that wait, give up, fork or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.errors import LogBusy, UsageError
from headwater.system.lock import FileLock

PLENTY = 20.0

HOLD = """
import sys
from pathlib import Path
from headwater.system.lock import FileLock
with FileLock(Path(sys.argv[1])).hold(20):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "write.lock"


@contextmanager
def opened(path: Path) -> Iterator[FileLock]:
    """Locks on one path exclude each other as if they were in two processes: the kernel looks at open files."""
    lock = FileLock(path)
    try:
        yield lock
    finally:
        lock.close()


@contextmanager
def held_elsewhere(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its input is closed or it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def waiters() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headwater-lock"]


def wait_for_waiters() -> None:
    while found := waiters():
        for thread in found:
            if thread.is_alive():
                thread.join(PLENTY)


def is_free(path: Path) -> bool:
    with opened(path) as other, other.try_hold() as held:
        return held


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_one_holder_at_a_time(path: Path) -> None:
    with opened(path) as lock:
        with lock.hold(PLENTY):
            assert not is_free(path)
        assert is_free(path)


def test_what_the_block_raises_frees_the_lock(path: Path) -> None:
    with opened(path) as lock:
        with pytest.raises(LookupError), lock.hold(PLENTY):
            raise LookupError
        with pytest.raises(LookupError), lock.try_hold():
            raise LookupError
        assert is_free(path)


def test_threads_of_one_process_exclude_each_other(path: Path) -> None:
    inside: list[int] = []
    most = 0

    def work(_: int) -> None:
        nonlocal most
        with lock.hold(PLENTY):
            inside.append(1)
            most = max(most, len(inside))
            inside.pop()

    with opened(path) as lock, ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(200)))
    assert most == 1


def test_who_waits_gets_the_lock_when_it_is_released(path: Path) -> None:
    with held_elsewhere(path) as process, opened(path) as lock, ThreadPoolExecutor(1) as pool:

        def take() -> bool:
            with lock.hold(PLENTY):
                return is_free(path)

        taken = pool.submit(take)
        while not waiters():
            pass
        assert not taken.done()
        process.communicate()
        assert taken.result(PLENTY) is False


def test_a_killed_holder_frees_the_lock(path: Path) -> None:
    with held_elsewhere(path) as process, opened(path) as lock:
        process.send_signal(signal.SIGKILL)
        with lock.hold(PLENTY):
            assert not is_free(path)


def test_waiting_has_an_end(path: Path) -> None:
    with opened(path) as holder, opened(path) as lock:
        with holder.hold(PLENTY), pytest.raises(LogBusy) as caught, lock.hold(0.01):
            pass
        assert caught.value.path == str(path.parent)
        with lock.hold(PLENTY):
            assert not is_free(path)


def test_waiting_for_another_thread_has_an_end(path: Path) -> None:
    with opened(path) as lock, ThreadPoolExecutor(1) as pool, lock.hold(PLENTY):

        def take() -> None:
            with lock.hold(0.01):
                pass

        with pytest.raises(LogBusy):
            pool.submit(take).result()


def test_who_gave_up_does_not_free_the_lock_of_who_came_later(path: Path) -> None:
    with opened(path) as first, opened(path) as lock, ThreadPoolExecutor(1) as pool:
        entered, leave = threading.Event(), threading.Event()

        def take() -> None:
            with lock.hold(PLENTY):
                entered.set()
                leave.wait(PLENTY)

        with first.hold(PLENTY):
            with pytest.raises(LogBusy), lock.hold(0.01):
                pass
            later = pool.submit(take)
        assert entered.wait(PLENTY)
        wait_for_waiters()
        assert not is_free(path)
        leave.set()
        later.result()
        assert is_free(path)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def interrupt_the_one_who_waits() -> None:
    while not waiters():
        pass
    os.kill(os.getpid(), signal.SIGUSR1)


def test_an_interrupt_while_waiting_leaves_the_lock_free(path: Path) -> None:
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with opened(path) as first, opened(path) as lock, first.hold(PLENTY), ThreadPoolExecutor(1) as pool:
            interrupting = pool.submit(interrupt_the_one_who_waits)
            with pytest.raises(KeyboardInterrupt), lock.hold(PLENTY):
                pass
            interrupting.result()
        wait_for_waiters()
        assert is_free(path)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_waiting_and_giving_up_leaves_no_file_open(path: Path) -> None:
    with opened(path) as first, opened(path) as lock:
        before = open_files()
        with first.hold(PLENTY):
            for _ in range(5):
                with pytest.raises(LogBusy), lock.hold(0.001):
                    pass
        wait_for_waiters()
        with lock.hold(PLENTY):
            pass
        assert open_files() == before


def test_who_waits_comes_before_one_who_comes_back_at_once(path: Path) -> None:
    order: list[str] = []

    def take(lock: FileLock, name: str) -> None:
        with lock.hold(PLENTY):
            order.append(name)

    with opened(path) as busy, opened(path) as patient, ThreadPoolExecutor(1) as pool:
        for _ in range(20):
            with busy.hold(PLENTY):
                waiting = pool.submit(take, patient, "patient")
                while not waiters() or is_free(path.with_suffix(".queue")):
                    pass
            take(busy, "busy")
            waiting.result()
    assert order == ["patient", "busy"] * 20


def test_a_closed_lock_is_not_to_be_had(path: Path) -> None:
    lock = FileLock(path)
    lock.close()
    lock.close()
    with pytest.raises(UsageError), lock.hold(PLENTY):
        pass
    with pytest.raises(UsageError), lock.try_hold():
        pass


def test_closing_waits_for_the_holder(path: Path) -> None:
    lock, entered, leave = FileLock(path), threading.Event(), threading.Event()

    def take() -> None:
        with lock.hold(PLENTY):
            entered.set()
            leave.wait(PLENTY)

    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(take)
        assert entered.wait(PLENTY)
        closing = pool.submit(lock.close)
        assert not is_free(path)
        assert not closing.done()
        leave.set()
        holding.result()
        closing.result()


def in_child(work: Callable[[], None]) -> int:
    """The process id of a fork that does the work and then lives on until it is killed."""
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os.write(done, b"!")
            signal.pause()
        finally:
            os._exit(1)
    os.close(done)
    assert os.read(ready, 1) == b"!", "the child failed"
    os.close(ready)
    return pid


def reap(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


HOLD_AND_FORK = """
import os, signal, sys
from pathlib import Path
from headwater.system.lock import FileLock
with FileLock(Path(sys.argv[1])).hold(20):
    child = os.fork()
    if child == 0:
        os.close(1)
        signal.pause()
    print(child, flush=True)
    signal.pause()
"""


def test_a_fork_does_not_go_on_holding_the_lock_of_its_dead_parent(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_FORK, str(path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert not is_free(path)
            parent.kill()
            parent.wait()
            with opened(path) as lock, lock.hold(PLENTY):
                os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_fork_can_neither_take_nor_release_the_lock_of_its_parent(path: Path) -> None:
    with opened(path) as lock:
        holding = lock.hold(PLENTY)

        def try_everything() -> None:
            for attempt in (lock.hold(PLENTY), lock.try_hold()):
                with pytest.raises(UsageError), attempt:
                    pass
            holding.__exit__(None, None, None)

        with holding:
            child = in_child(try_everything)
            assert not is_free(path)
            reap(child)
        assert is_free(path)
