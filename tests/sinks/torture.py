"""Kills the runner of a sink, its target, or both, cuts, delays and repeats their traffic, and compares all rows."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headwater.log.opening import open_log
from headwater.testing.proxy import Proxy
from tests.contract.sinks.feeding import Keyed
from tests.sinks.feeds import Feeds, Order
from tests.sinks.story import Story, Witness, checksum
from tests.sinks.victims import BOTH, CUT, DELAY, DROP, REPEAT, RUNNER, TARGET, VICTIMS, Victim
from tests.unit.engine.samples import Driver, Unsynced, zset

SETTLE_SECONDS_MAX = 120.0
AIM_SECONDS_MAX = 3.0
"""How long a fault waits for the bytes in whose middle it strikes."""
POLL_SECONDS = 0.05


@dataclass
class Figures:
    """What a torture came to."""

    rounds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    versions: int = 0
    polls: int = 0
    seen: int = 0
    contents: int = 0
    """How often a target got the content again."""
    cut: int = 0
    dropped: int = 0
    repeated: int = 0

    def __str__(self) -> str:
        struck = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.rounds} rounds ({struck}), {self.versions:,} versions, {self.polls:,} polls that showed "
            f"{self.seen:,} different versions, {self.contents} contents, {self.cut} connections cut, "
            f"{self.dropped} pieces dropped, {self.repeated} requests repeated"
        )


class Torture:
    """One target, one view, and a seed: the same seed strikes in the same order, in the middle of the same bytes."""

    def __init__(self, victim: Victim, seed: int, say: Callable[[str], object] = print) -> None:
        self._victim, self._say = victim, say
        # Apart, because how many versions are published depends on the machine.
        self._chance, self._texts = random.Random(seed), random.Random(seed + 1)
        self._seed, self.figures = seed, Figures()
        self._story = Story()
        self._witness = Witness(self._story, transactional=victim.transactional)
        self._problem: BaseException | None = None
        self._looking = threading.Event()
        self._down = False

    def run(self, rounds: int) -> Figures:
        """This many rounds, each of one to three faults and a comparison. Raises `AssertionError`."""
        with self._opened():
            for number in range(rounds):
                faults = [self._chance.choice(self._victim.faults) for _ in range(self._chance.randint(1, 3))]
                try:
                    for fault in faults:
                        self._strike(fault)
                        self.figures.faults[fault] += 1
                    self._settle()
                except AssertionError as error:
                    told = f"seed {self._seed}, round {number} ({', '.join(faults)}): {error}"
                    raise AssertionError(f"{told}\n{self._feeds.said()[-3000:]}") from error
                self.figures.rounds += 1
                self._say(
                    f"seed {self._seed}, round {number}: {', '.join(faults)}; equal at version {self._story.version}, "
                    f"{len(self._story.rows)} rows, checksum {checksum(self._story.rows)}"
                )
            self._conclude()
        return self.figures

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with ExitStack() as opened:
            place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="hw")))
            driver = Driver(place / "pipeline", storage=Unsynced())
            opened.callback(driver.close)
            log = opened.enter_context(open_log(place / "log"))
            self._view = Keyed(driver, place / "pipeline", log)
            server = self._victim.server
            self._proxy = None if server is None else Proxy(server, self._seed)
            if self._proxy is not None:
                opened.callback(self._proxy.close)
            arguments = self._victim.arguments(0 if self._proxy is None else self._proxy.port)
            order = Order(
                str(place / "pipeline"), str(place / "log"), self._victim.kind, arguments, self._victim.limits
            )
            self._feeds = Feeds(order, place / "said")
            opened.callback(self._feeds.close)
            ended = threading.Event()
            looking = threading.Thread(target=self._look, args=(ended,), daemon=True)
            looking.start()
            opened.callback(looking.join, 60)
            opened.callback(ended.set)
            yield

    def _look(self, ended: threading.Event) -> None:
        """Polls the target, and keeps what is wrong."""
        try:
            while not ended.wait(POLL_SECONDS):
                rows = None if self._down else self._victim.shown()
                if rows is not None:
                    self._witness.look(rows)
        except BaseException as error:  # noqa: BLE001 - the round is told
            self._problem = error

    def _publish(self) -> None:
        """A version of the view, after a short while."""
        assert self._problem is None, self._problem
        if self._texts.random() < 0.1:
            # Changes that come to nothing.
            self._view.driver.publish({"v": zset((0, 0, "never", 1), (0, 0, "never", -1))})
        else:
            self._view.change(self._story.next_change(self._texts))
        time.sleep(self._texts.uniform(0.0, 0.03))

    # Faults

    def _strike(self, fault: str) -> None:
        """Lets a fault happen while versions of the view come, and ends it."""
        self._feeds.start()
        proxy = self._proxy
        if proxy is not None and fault in (CUT, DROP, DELAY, REPEAT):
            proxy.cutting, proxy.dropping = fault == CUT, fault == DROP
            proxy.delay = self._chance.uniform(0.01, 0.2) if fault == DELAY else 0.0
            proxy.repeating = 0.3 if fault == REPEAT else 0.0
            self._publish_for(self._chance.uniform(0.2, 0.8))
            if self._chance.random() < 0.5:
                # What is on its way still arrives, late, beside what the next one sends.
                self._feeds.kill()
            proxy.heal()
            return
        struck = threading.Event()
        self._aim(lambda: self._hurt(fault, struck))
        until = time.monotonic() + AIM_SECONDS_MAX
        while not struck.is_set() and time.monotonic() < until:
            self._publish()
        if proxy is not None:
            proxy.expire()
        assert struck.wait(60), f"{fault} could not be killed"
        self._publish()
        if fault in (TARGET, BOTH):
            time.sleep(self._chance.uniform(0, 0.2))
            self._victim.start()
            self._down = False

    def _aim(self, action: Callable[[], None]) -> None:
        """Lets an action strike in the middle of what the runner sends; without a proxy, at some moment."""
        if self._proxy is not None:
            self._proxy.after(self._chance.randrange(100, 30_000), action)
            return
        timer = threading.Timer(self._chance.uniform(0, 0.4), action)
        timer.daemon = True
        timer.start()

    def _hurt(self, fault: str, struck: threading.Event) -> None:
        if fault in (RUNNER, BOTH):
            self._feeds.kill()
        if fault in (TARGET, BOTH):
            self._down = True
            self._victim.kill()
        struck.set()

    def _publish_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._publish()

    # Comparing

    def _settle(self) -> None:
        """Nothing is wrong any more: the target has to show the newest version."""
        self._feeds.start()
        wanted, until = dict(self._story.rows), time.monotonic() + SETTLE_SECONDS_MAX
        while (shown := self._victim.shown()) != wanted:
            assert self._problem is None, self._problem
            assert self._feeds.is_alive(), "the runner has ended by itself"
            assert time.monotonic() < until, _difference(shown, wanted)
            time.sleep(0.01)
        assert shown is not None
        assert checksum(shown) == checksum(wanted)

    def _conclude(self) -> None:
        assert self._view.content() == self._story.rows, "what was published is not what the view has"
        said, figures, proxy = self._feeds.said(), self.figures, self._proxy
        assert "Traceback" not in said, said
        figures.versions, figures.polls = self._story.version, self._witness.polls
        figures.seen, figures.contents = len(self._witness.seen), said.count("starts over")
        if proxy is not None:
            figures.cut, figures.dropped, figures.repeated = proxy.cut, proxy.dropped, proxy.repeated


def _difference(shown: dict[int, str] | None, wanted: dict[int, str]) -> str:
    if shown is None:
        return "the target does not answer"
    keys = [key for key in {*shown, *wanted} if shown.get(key) != wanted.get(key)]
    some = "; ".join(f"{key}: {shown.get(key)!r} instead of {wanted.get(key)!r}" for key in sorted(keys)[:5])
    return f"{len(keys)} keys differ: {some}"


def torture(name: str, seed: int, rounds: int, say: Callable[[str], object] = print) -> Figures:
    """Tortures a new target of this name. Raises `AssertionError`."""
    victim = VICTIMS[name]()
    try:
        return Torture(victim, seed, say).run(rounds)
    finally:
        victim.close()
