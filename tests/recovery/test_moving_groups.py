"""A group that is reset while its members, and who resets it, are killed: its output is what the resets say it is."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.port import Log
from headwater.model.position import Position
from tests.recovery.group_victim import GROUP, PARTITIONS

VICTIM = Path(__file__).with_name("group_victim.py")
SECONDS = float(os.environ.get("HEADWATER_HISTORY_SECONDS", "6"))
SETTLED_SECONDS_MAX = 60.0
MEMBERS, ROUNDS = 2, max(3, round(SECONDS / 2))

pytestmark = pytest.mark.timeout(SECONDS * 5 + 120)


@dataclass
class Reset:
    """One that was tried. It happened behind position `tried`; before `done`, where it was acknowledged."""

    partition: int
    offset: int
    tried: Position
    done: Position | None = None


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(VICTIM), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str], told: str = "") -> list[Reset]:
    """Kills it, and gives what it had told of its resets."""
    process.kill()
    more, _ = process.communicate()
    resets: list[Reset] = []
    for line in (told + more).split("\n")[:-1]:
        mark, *values = line.split()
        if mark == "?":
            resets.append(Reset(int(values[0]), int(values[1]), Position.parse(values[2])))
        else:
            resets[-1].done = Position.parse(values[0])
    return resets


def test_output_is_what_the_resets_say_whatever_is_killed(tmp_path: Path) -> None:
    chooser = random.Random(5)
    with EmbeddedLog(tmp_path, durability="os", upkeep=False) as log:
        log.create("clicks", "user_id bigint, n bigint", partitions=PARTITIONS, partition_by="user_id")
        log.create("copies", "partition int, offset bigint, user_id bigint, n bigint")
        members = [start("copy", tmp_path) for _ in range(MEMBERS)]
        tried: list[Reset] = []
        numbers = itertools.count()
        try:
            _eventually(lambda: GROUP in log.groups())
            for round_number in range(ROUNDS):
                resetting, told = start("reset", tmp_path, round_number), ""
                members.append(start("copy", tmp_path))
                try:
                    _append(log, numbers, seconds=0.5)
                    assert resetting.stdout is not None
                    # It takes a moment to start.
                    told = resetting.stdout.readline()
                    _append(log, numbers, seconds=1 + chooser.random())
                finally:
                    tried += end(resetting, told)
                end(members.pop(chooser.randrange(MEMBERS)))
            _eventually(lambda: sum(lag.records for lag in log.lag(GROUP)) == 0)
        finally:
            for process in members:
                end(process)
        assert len(tried) > ROUNDS
        assert _breaks(log, tried), "no reset was seen in the output"
        assert _effects(log, tried), "no output came after a reset"


def _append(log: Log, numbers: Iterator[int], *, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number = next(numbers)
        log.append("clicks", [{"user_id": user, "n": number} for user in range(20)])
        time.sleep(0.02)


def _eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + SETTLED_SECONDS_MAX
    while not holds():
        assert time.monotonic() < until, "it does not come about"
        time.sleep(0.05)


def _breaks(log: Log, tried: Sequence[Reset]) -> int:
    """How often the output continues elsewhere. It may do so only where a reset led, in the order of the resets."""
    targets: dict[int, list[int]] = defaultdict(list)
    for reset in tried:
        targets[reset.partition].append(reset.offset)
    expected, breaks, clicks = dict.fromkeys(range(PARTITIONS), 0), 0, _clicks(log)
    for record in log.read("copies"):
        assert record.value is not None
        partition, offset = _place(record.value)
        assert clicks[partition, offset] == (record.value["user_id"], record.value["n"])
        if offset != expected[partition]:
            left = targets[partition]
            assert offset in left, f"partition {partition} continues with {offset}, not {expected[partition]}"
            targets[partition] = left[left.index(offset) + 1 :]
            breaks += 1
        expected[partition] = offset + 1
    ends = {partition: end for partition, (_, end) in log.offsets("clicks").items()}
    at_end = {partition: expected[partition] == end for partition, end in ends.items()}
    # A partition whose last reset led to its end has nothing behind it in the output.
    assert all(at_end[partition] or ends[partition] in targets[partition] for partition in ends)
    return breaks


def _effects(log: Log, tried: Sequence[Reset]) -> int:
    """How many resets were acknowledged and have output behind them. It has to begin where the reset led."""
    copies: dict[int, list[tuple[Position, int]]] = defaultdict(list)
    for record in log.read("copies"):
        assert record.value is not None
        partition, offset = _place(record.value)
        copies[partition].append((record.position, offset))
    found = 0
    for number, reset in enumerate(tried):
        until = next((later.tried for later in tried[number + 1 :] if later.partition == reset.partition), None)
        made = [(at, offset) for at, offset in copies[reset.partition] if until is None or at <= until]
        if reset.done is not None and any(at > reset.done for at, _ in made):
            assert reset.offset in [offset for at, offset in made if at > reset.tried], f"{reset} had no effect"
            found += 1
    return found


def _place(copy: Mapping[str, Any]) -> tuple[int, int]:
    """Which record it is a copy of."""
    return copy["partition"], copy["offset"]


def _clicks(log: Log) -> dict[tuple[int, int], tuple[object, object]]:
    rows = log.scan("clicks").to_pylist()
    return {(row["_partition"], row["_offset"]): (row["user_id"], row["n"]) for row in rows}
