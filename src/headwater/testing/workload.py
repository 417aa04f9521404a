"""A workload of many processes over one log, some of them killed, and the check of what they have seen.

    python -m headwater.testing.workload --seconds 60 --seed 1

It starts writers, readers and members of two groups, kills one with SIGKILL now and then and starts another in its
place, or stops one for longer than a lease. In the end it reads everything, and looks for anomalies in the history.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from threading import Thread

from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clients import LEASE, Going, Member, Reader, Writer, create_topics
from headwater.testing.history import Anomaly, Operation, anomalies, attempts_of
from headwater.testing.recorder import Recorder, load_history

# Each thread of a writer is a process of its own in the history; together they share commits and fsyncs.
WRITER_THREADS = 2
SECONDS_TO_END = 60.0
# The groups, and the first part of the names of their members.
MAKER, AUDITOR = "maker", "auditor"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything. Two plans with the same seed make the same choices, at the mercy of the machine."""

    seconds: float = 10.0
    seed: int = 1
    writers: int = 2
    readers: int = 2
    makers: int = 3
    auditors: int = 2
    kills: int = 1_000_000
    pause: float = 0.5


@dataclass(slots=True)
class Report:
    """What happened. `problems` are clients that failed otherwise than by our hand, and damage in the log itself."""

    seed: int
    processes: int = 0
    killed: int = 0
    stopped: int = 0
    operations: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    values: int = 0
    problems: list[str] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.problems and not self.anomalies


@dataclass(slots=True)
class Herd:
    """The client processes. The parent opens no log and starts no thread, so that it may fork."""

    log: Path
    records: Path
    until: float
    dice: Random
    running: dict[int, str] = field(default_factory=dict)
    lives: Counter[str] = field(default_factory=Counter)

    def start(self, role: str) -> None:
        """A new process, named after its role and how many had that role before."""
        name, dice = f"{role}.{self.lives[role]}", _dice(self.dice.random())
        self.lives[role] += 1
        pid = os.fork()
        if pid:
            self.running[pid] = role
            return
        try:
            self._live(role, name, dice)
        except BaseException:  # noqa: BLE001 (the parent reads it)
            (self.records / f"{name}.failure").write_text(traceback.format_exc())
        finally:
            os._exit(0)

    def kill(self) -> None:
        """Kills one, and starts another in its place."""
        pid = self.dice.choice(sorted(self.running))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.start(self.running.pop(pid))

    def stop_for_a_while(self) -> None:
        """Lets one stand still until the others must think it is dead."""
        pid = self.dice.choice(sorted(self.running))
        os.kill(pid, signal.SIGSTOP)
        time.sleep(LEASE.total_seconds() * 1.5)
        os.kill(pid, signal.SIGCONT)

    def join(self) -> list[str]:
        """Waits for all of them; what went wrong."""
        late = time.monotonic() + SECONDS_TO_END
        problems = []
        for pid, role in self.running.items():
            while os.waitpid(pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > late:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    problems.append(f"{role} did not end")
                    break
                time.sleep(0.01)
        self.running.clear()
        return problems + [path.read_text() for path in sorted(self.records.glob("*.failure"))]

    def _live(self, role: str, name: str, dice: Random) -> None:
        kind, _, _ = role.partition("-")
        going = self._going
        with EmbeddedLog(self.log, durability=dice.choice(["fsync", "os", "os"])) as log:
            create_topics(log)
            if kind == "writer":
                recorders = [Recorder(self.records, f"{name}-{number}") for number in range(WRITER_THREADS)]
                _together([_writing(Writer(log, recorder, _dice(dice.random())), going) for recorder in recorders])
            elif kind == "reader":
                Reader(log, self.records, name, dice).run(going)
            else:
                with Recorder(self.records, name) as recorder:
                    Member(log, recorder, dice, kind, results=kind == MAKER).run(going)

    def _going(self) -> bool:
        return time.monotonic() < self.until


def run(plan: Plan, folder: Path) -> Report:
    """Runs the workload in a folder and checks its history, which stays there."""
    log, records = folder / "log", folder / "history"
    records.mkdir()
    herd = Herd(log, records, time.monotonic() + plan.seconds, _dice(plan.seed))
    report = Report(plan.seed)
    counts = {"writer": plan.writers, "reader": plan.readers, MAKER: plan.makers, AUDITOR: plan.auditors}
    for kind, count in counts.items():
        for number in range(count):
            herd.start(f"{kind}-{number}")
    while report.killed < plan.kills and time.monotonic() < herd.until - plan.pause:
        time.sleep(herd.dice.uniform(0, 2 * plan.pause))
        if herd.dice.random() < 0.8:
            herd.kill()
            report.killed += 1
        else:
            herd.stop_for_a_while()
            report.stopped += 1
    report.problems += herd.join()
    report.processes = sum(herd.lives.values())
    report.problems += _finish(log, records)
    return _judged(report, load_history(records))


def _finish(directory: Path, records: Path) -> list[str]:
    """Lets both groups deal with everything, reads everything, and checks the log itself."""
    with EmbeddedLog(directory) as log:
        for kind in (MAKER, AUDITOR):
            with Recorder(records, f"{kind}-last") as recorder:
                member = Member(log, recorder, _dice(0), kind, results=kind == MAKER)
                late = time.monotonic() + SECONDS_TO_END
                with member.join() as consumer:
                    while any(lag.records for lag in log.lag(kind)) and time.monotonic() < late:
                        delivered = member.poll(consumer)
                        if delivered:
                            member.settle(consumer, delivered)
        behind = [
            f"{lag.group} is {lag.records} behind in {lag.topic}/{lag.partition}" for lag in log.lag() if lag.records
        ]
        Reader(log, records, "reader-last", _dice(0)).by_batch(lambda: True)
        return behind + [str(finding) for finding in log.check()]


def _judged(report: Report, history: list[Operation]) -> Report:
    attempts = attempts_of(history)
    report.operations = len(attempts)
    report.outcomes = dict(sorted(Counter(f"{each.invoked.action} {each.type}" for each in attempts).items()))
    report.values = sum(len(each.sent) for each in attempts if each.type == "ok")
    report.anomalies = anomalies(history)
    return report


def _dice(seed: float) -> Random:
    return Random(seed)  # noqa: S311 (nothing is secret here)


def _writing(writer: Writer, going: Going) -> Callable[[], None]:
    return lambda: writer.run(going)


def _together(works: list[Callable[[], None]]) -> None:
    """Each in a thread of its own. Raises what one of them raised."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (raised below)
            errors.append(error)

    threads = [Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


def main() -> int:
    """Runs one plan; prints the report as JSON, and how to run it again if it is not good."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in asdict(Plan()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--keep", type=Path, help="a new folder for the log and the history, to look at them later")
    given = vars(parser.parse_args())
    keep = given.pop("keep")
    plan = Plan(**given)
    with tempfile.TemporaryDirectory(prefix="headwater-") as temporary:
        if keep is not None:
            keep.mkdir(parents=True)
        report = run(plan, keep or Path(temporary))
    print(json.dumps(asdict(report) | {"anomalies": [str(each) for each in report.anomalies]}, indent=1))
    if not report.good:
        options = " ".join(f"--{name} {value}" for name, value in asdict(plan).items())
        print(f"again: python -m headwater.testing.workload {options}", file=sys.stderr)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
