"""An alert that is killed again and again: the history has each turn of each row once, and each was told."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from headwater.engine.alerts.history import History
from tests.alerts.watching import TOPIC
from tests.channels.posts import Posts
from tests.contract.sinks.feeding import Keyed
from tests.webhooks.receiver import status, until

KILLS = int(os.environ.get("HEADWATER_ALERT_KILLS", "4"))
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(60 + 15 * KILLS)
@pytest.mark.parametrize("after", ["0", "0.05"])
def test_no_record_is_lost_or_doubled(view: Keyed, posts: Posts, tmp_path: Path, after: str) -> None:
    chance, history = random.Random(after), History(view.log, TOPIC)
    command = [sys.executable, "-m", "tests.alerts.watching", str(view.directory), str(tmp_path / "log")]
    command += [posts.url, after]
    for number in range(KILLS + 1):
        posts.answers += [status(chance.choice((500, 429)))] * chance.randrange(2)
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"running\n"
            for _ in range(6):
                keys = chance.sample(range(20), 4)
                view.change({key: None if key in view.held else f"row {chance.random()}" for key in keys})
                time.sleep(chance.random() * 0.05)
            if number == KILLS:
                until(lambda: _open(history) == {str(key) for key in view.held})
                until(lambda: _told(posts) == _recorded(history))
        finally:
            process.kill()
            process.communicate(timeout=20)
    records = [record for _, record in history.records()]
    assert len({(record.id, record.event) for record in records}) == len(records)
    turns: dict[str, list[str]] = defaultdict(list)
    for record in records:
        turns[record.key].append(record.event)
    for key, events in turns.items():
        assert events == ["fired", "cleared"] * (len(events) // 2) + ["fired"] * (len(events) % 2), key


def _open(history: History) -> set[str]:
    found: set[str] = set()
    for _, record in history.records():
        (found.add if record.event == "fired" else found.discard)(record.key)
    return found


def _recorded(history: History) -> list[tuple[str, str]]:
    return sorted((record.event, record.key) for _, record in history.records())


def _told(posts: Posts) -> list[tuple[str, str]]:
    return sorted((one["event"], one["key"]) for one in posts.once())
