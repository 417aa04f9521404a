"""Followers in other processes: they wake up soon, cost next to nothing while they wait, and replace the dead."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.log.port import Log

# A bound for a busy machine: what is measured is a part of a percent.
IDLE_CPU_MAX = 0.05
IDLE_SECONDS = 2.0
PLENTY = timedelta(seconds=30)
LEASE = timedelta(seconds=1)

OPEN = """
import json, sys, threading, time
from datetime import timedelta
import headwater as hw
def tell(**facts):
    print(json.dumps(facts), flush=True)
log = hw.open(sys.argv[1])
"""

# Who follows does not look by himself here: if nobody wakes him up, he waits until the test's time is over.
NO_LOOKING = """
from headwater.system import wake
wake.LOOK_EVERY_SECONDS = 600.0
"""

FOLLOW_READ = """
tell(ready=True)
for record in log.read("orders", follow=True):
    tell(id=record.value["id"])
"""

FOLLOW_CONSUMER = """
with log.consumer("orders", group="billing") as consumer:
    tell(ready=True)
    for batch in consumer:
        tell(id=batch.records["id"][0].as_py())
        consumer.commit()
"""

FOLLOW_WAIT = """
position = log.position()
tell(ready=True)
while True:
    now = log.wait(position, timedelta(seconds=60))
    if now != position:
        tell(id=log.scan("orders").num_rows)
        position = now
"""

IDLE = """
def read():
    for record in log.read("orders", start="latest", follow=True):
        tell(unexpected="a record")
def consume():
    with log.consumer("orders", group="idle") as consumer:
        for batch in consumer:
            tell(unexpected="a batch")
def wait():
    while True:
        log.wait(log.position(), timedelta(seconds=60))
for work in (read, consume, wait):
    threading.Thread(target=work, daemon=True).start()
time.sleep(1)
cpu, wall = time.process_time(), time.monotonic()
time.sleep(float(sys.argv[2]))
tell(cpu=time.process_time() - cpu, wall=time.monotonic() - wall)
"""

TAKE_AND_STOP = """
with log.consumer("orders", group="billing", lease=timedelta(seconds=float(sys.argv[2]))) as consumer:
    batch = consumer.poll(timedelta(seconds=30))
    consumer.commit()
    tell(read=batch.records["id"].to_pylist())
    sys.stdin.readline()
    batch = consumer.poll(timedelta(seconds=30))
    tell(read=batch.records["id"].to_pylist())
    sys.stdin.read()
"""


class Child:
    """Another process, which tells what it does in lines of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the child has died"
        heard: dict[str, Any] = json.loads(line)
        return heard

    def say(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("continue\n")
        self.process.stdin.flush()


@contextmanager
def child(script: str, *arguments: object) -> Iterator[Child]:
    with subprocess.Popen(
        [sys.executable, "-c", OPEN + script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with hw.open(tmp_path / "log") as log:
        log.create("orders", "id bigint")
        yield log


@pytest.mark.parametrize("script", [FOLLOW_READ, FOLLOW_CONSUMER, FOLLOW_WAIT], ids=["read", "consumer", "wait"])
def test_a_follower_in_another_process_is_woken_up(log: Log, script: str) -> None:
    with child(NO_LOOKING + script, log.url) as follower:
        assert follower.hear() == {"ready": True}
        for number in range(1, 6):
            log.append("orders", [{"id": number}])
            assert follower.hear()["id"] == number


def test_waiting_costs_next_to_nothing(log: Log) -> None:
    log.append("orders", [{"id": 1}])
    with log.consumer("orders", group="idle") as consumer:
        assert consumer.poll(PLENTY) is not None
        consumer.commit()
    with child(IDLE, log.url, IDLE_SECONDS) as idle:
        used = idle.hear()
    assert used["cpu"] / used["wall"] < IDLE_CPU_MAX


def test_a_killed_member_s_partition_goes_to_another_process_from_the_last_commit(log: Log) -> None:
    log.append("orders", [{"id": 1}])
    with child(TAKE_AND_STOP, log.url, LEASE.total_seconds()) as holder:
        assert holder.hear() == {"read": [1]}
        with log.consumer("orders", group="billing", lease=LEASE) as consumer:
            log.append("orders", [{"id": 2}])
            holder.say()
            assert holder.hear() == {"read": [2]}
            # It lives, so its lease continues, however long it takes.
            assert consumer.poll(LEASE * 1.5) is None
            holder.process.kill()
            batch = consumer.poll(PLENTY)
            assert batch is not None
            assert batch.records["id"].to_pylist() == [2]
            consumer.commit()


def test_a_follower_sees_what_a_killed_writer_had_committed(log: Log) -> None:
    script = 'log.append("orders", [{"id": 7}]); tell(done=True); sys.stdin.read()'
    records = log.read("orders", follow=True, idle_timeout=PLENTY)
    with child(script, log.url) as writer:
        assert writer.hear() == {"done": True}
        writer.process.kill()
    assert next(records).value == {"id": 7}
