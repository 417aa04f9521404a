"""Torture: processes that use one log at once, killed with SIGKILL at random and started again, and a verdict."""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import NoReturn

import pyarrow as pa

from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.disk import seeded
from headwater.testing.ledger import Channel, Ledger
from headwater.testing.verdict import Verdict, judge
from headwater.testing.victims import CAST, ROLES, Victim, create_topics

PR_SET_PDEATHSIG = 1
# Nobody gets through for this long: something is stuck.
STUCK_SECONDS_MAX = 60.0
# How often all processes are killed at once, so that the log is opened by nobody and then again.
ALL_AT_ONCE = 0.03
# How often the one that holds the write lock is killed, and how long it is looked for.
AIMED, AIM_SECONDS_MAX = 0.5, 0.02


@dataclass(slots=True)
class TortureFigures:
    """What a torture came to so far.

    `kills` counts processes, killed alone or all at once; `aimed` those that held the write lock when they were chosen.
    """

    kills: int = 0
    aimed: int = 0
    all_at_once: int = 0
    verdicts: int = 0
    acknowledged: int = 0
    doubtful: int = 0
    doubtful_happened: int = 0
    duplicates_recognised: int = 0
    records_checked: int = 0
    seconds: float = 0.0
    open_seconds_max: float = 0.0
    killed: Counter[str] = field(default_factory=Counter)
    segments: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Child:
    name: str
    pid: int
    pipe: int
    rest: bytearray


class Torture:
    """The driver. It imports everything and opens no log, so that a child is a fork away and begins at once.

    It has one thread, and so have its forks when they begin.
    """

    def __init__(self, directory: Path, *, seed: int, kills_per_second: float = 6.0) -> None:
        self._directory, self._random, self._pause = directory, seeded(seed), 1 / kills_per_second
        self._ledger = Ledger()
        self._children: dict[str, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._heard_at = 0.0
        self.figures = TortureFigures()

    def run(
        self,
        kills: int,
        *,
        seconds_max: float | None = None,
        progress: Callable[[TortureFigures], None] = lambda _: None,
    ) -> TortureFigures:
        """Kills this many processes, or as many as the time allows, and judges; stops at the first problem."""
        began = time.monotonic()
        # Arrow loads pandas when it first sees a row, if there is one to load: here, once, and not in every child.
        pa.Table.from_pylist([{"n": 1}])
        self._in_child(lambda: create_topics(self._directory))
        try:
            self._start_all()
            while self.figures.kills < kills and not self.figures.problems:
                ended = self._listen(self._random.uniform(0.2, 1.8) * self._pause)
                if ended is not None:
                    self._kill(ended, counted=False)
                elif self._random.random() < ALL_AT_ONCE:
                    self._kill_all()
                    self._judge(final=False)
                    self._start_all()
                else:
                    self._kill_one(self._choose())
                self._note(began)
                progress(self.figures)
                if seconds_max is not None and time.monotonic() - began > seconds_max:
                    break
            self._kill_all(counted=False)
            self._judge(final=True)
        finally:
            self._kill_all(counted=False)
        self._note(began)
        progress(self.figures)
        return self.figures

    def _start_all(self) -> None:
        for name in CAST:
            self._start(name)

    def _start(self, name: str) -> None:
        account = self._ledger.account(name)
        seed = self._random.random()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _live(name, self._directory, writing, seeded(str(seed)), account.tried, account.last)
        os.close(writing)
        os.set_blocking(reading, False)
        child = _Child(name, pid, reading, bytearray())
        self._children[name] = child
        self._selector.register(reading, selectors.EVENT_READ, child)
        self._heard_at = time.monotonic()

    def _choose(self) -> str:
        """Anybody, or, half of the time, the one that is in the middle of a commit."""
        if self._random.random() < AIMED:
            until = time.monotonic() + AIM_SECONDS_MAX
            while time.monotonic() < until:
                holder = _holder(self._directory / "write.lock")
                for child in self._children.values():
                    if child.pid == holder:
                        self.figures.aimed += 1
                        return child.name
        return self._random.choice(CAST)

    def _kill_one(self, name: str) -> None:
        self._kill(self._children[name])
        self._start(name)

    def _kill_all(self, *, counted: bool = True) -> None:
        """Not quite at the same moment: who is left for an instant continues with what the first one has left."""
        children = list(self._children.values())
        self._random.shuffle(children)
        if counted:
            first = self._choose()
            children.sort(key=lambda child: child.name != first)
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            if self._random.random() < 0.3:
                time.sleep(self._random.random() * 0.003)
        for child in children:
            self._kill(child, counted=counted)
        self.figures.all_at_once += counted

    def _kill(self, child: _Child, *, counted: bool = True) -> None:
        os.kill(child.pid, signal.SIGKILL)
        _, status = os.waitpid(child.pid, 0)
        if not os.WIFSIGNALED(status):
            self.figures.problems.append(f"{child.name} ended by itself")
        self._hear(child)
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        self._ledger.account(child.name).close()
        del self._children[child.name]
        if counted:
            self.figures.kills += 1
            self.figures.killed[child.name.partition("-")[0]] += 1

    def _listen(self, seconds: float) -> _Child | None:
        """Enters what the processes say, for so long, or until one ends by itself: that one."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                child: _Child = key.data
                if not self._hear(child):
                    return child
        if time.monotonic() - self._heard_at > STUCK_SECONDS_MAX:
            self.figures.problems.append(f"nobody got through for {STUCK_SECONDS_MAX:.0f} s")
        return None

    def _hear(self, child: _Child) -> bool:
        """Enters what a process has said; whether it lives and may say more."""
        while True:
            try:
                content = os.read(child.pipe, 1 << 16)
            except BlockingIOError:
                return True
            if not content:
                return False
            self._heard_at = time.monotonic()
            *lines, rest = (child.rest + content).split(b"\n")
            child.rest[:] = rest
            for line in lines:
                self._ledger.account(child.name).take(line.decode())

    def _judge(self, *, final: bool) -> None:
        text = self._in_child(lambda: json.dumps(asdict(judge(self._directory, self._ledger, final=final))))
        verdict = Verdict(**json.loads(text))
        self.figures.verdicts += 1
        self.figures.problems += verdict.problems
        self.figures.records_checked += verdict.records
        self.figures.open_seconds_max = max(self.figures.open_seconds_max, verdict.open_seconds)
        resumed = sum(account.happened for account in self._ledger.accounts.values())
        self.figures.doubtful_happened = verdict.happened + resumed + self.figures.duplicates_recognised
        self.figures.segments = verdict.segments

    def _in_child(self, act: Callable[[], str | None]) -> str:
        """Does something with the log in a process of its own: this one must stay free of its threads."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            with _last_words(lambda text: _write_all(writing, b"x" + text.encode())):
                _write_all(writing, b"=" + (act() or "").encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            content = file.read()
        os.waitpid(pid, 0)
        if content[:1] != b"=":
            raise RuntimeError(f"a process of the torture itself failed: {content[1:].decode()}")
        return content[1:].decode()

    def _note(self, began: float) -> None:
        figures, accounts = self.figures, self._ledger.accounts.values()
        figures.seconds = time.monotonic() - began
        figures.acknowledged = sum(len(account.acknowledged) for account in accounts)
        figures.doubtful = sum(len(account.doubtful) for account in accounts)
        figures.duplicates_recognised = sum(account.counted for account in self._ledger.of("producer").values())
        figures.problems += [text for text in self._ledger.complaints if text not in figures.problems]


def _holder(lock: Path) -> int | None:
    """The process that holds a lock, as the kernel tells it; None if nobody does, or the kernel does not tell."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    inode = str(lock.stat().st_ino)
    for line in lines:
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
            return int(fields[4])
    return None


def _live(name: str, directory: Path, pipe: int, random: Random, tried: int, last: int) -> NoReturn:
    """A child's whole life. It dies with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    channel = Channel(pipe)
    with _last_words(channel.complain):
        log = EmbeddedLog(directory, create=False)
        ROLES[name.partition("-")[0]](Victim(name, log, channel, random, tried, last))
    os._exit(1)


@contextmanager
def _last_words(say: Callable[[str], object]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:  # noqa: BLE001 (a child says why it ends, whatever it is)
        place = traceback.extract_tb(error.__traceback__)[-1]
        say(f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})")


def _write_all(fd: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]
