"""A sender that is killed, again and again: what the receiver holds, each id once, is the view at every position."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.unit.engine.samples import Driver, Unsynced
from tests.webhooks.receiver import Receiver, added_up, receiving, status, until
from tests.webhooks.sending import publish

KILLS = 5
ROOT = Path(__file__).parents[2]


class Sent:
    """A sender in a process of its own."""

    def __init__(self, directory: Path, url: str, start: str) -> None:
        self._command = [sys.executable, "-m", "tests.webhooks.sending", str(directory), url, start]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "running\n"

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate(timeout=20)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path, storage=Unsynced())
    publish(made, ("row 0", 1))
    yield made
    made.close()


@pytest.mark.timeout(180)
def test_what_arrived_without_the_sender_knowing_comes_again_under_the_same_id(tmp_path: Path, driver: Driver) -> None:
    with receiving() as receiver:
        sent = Sent(tmp_path, receiver.url, "content")

        def killing(taker: Receiver, request: BaseHTTPRequestHandler) -> None:
            taker.taken.append(taker.came[-1])
            sent.kill()
            status(204)(taker, request)

        for number in range(1, 4):
            receiver.answers.append(killing)
            sent.start()
            until(lambda: len(receiver.taken) == number)  # noqa: B023 - it is called at once
            publish(driver, (f"row {number}", 1))
        sent.start()
        until(lambda: len(receiver.rows()) == 4)
        sent.kill()
    ids = [identity for identity, _ in receiver.came]
    assert ids[:4] == ["to~shop_1_1"] * 4, "whatever was published in between"
    assert receiver.rows() == {f"row {number}": 1 for number in range(4)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", ["content", "now"])
def test_a_sender_that_is_killed_loses_nothing(tmp_path: Path, driver: Driver, start: str) -> None:
    chance = random.Random(7)
    done = threading.Event()
    position = 1

    def traffic() -> None:
        nonlocal position
        while not done.is_set():
            publish(driver, (f"row {position}", 1), (f"row {position - 1}", -1))
            position += 1
            time.sleep(0.01)

    with receiving() as receiver:
        sent = Sent(tmp_path, receiver.url, start)
        sent.start()
        until((tmp_path / "sinks" / "to.shop.json").exists)
        publishing = threading.Thread(target=traffic, daemon=True)
        publishing.start()
        for _ in range(KILLS):
            reached = len(receiver.taken) + 3
            until(lambda: len(receiver.taken) >= reached)  # noqa: B023 - it is called at once
            time.sleep(chance.random() * 0.02)
            sent.kill()
            sent.start()
        done.set()
        publishing.join(20)
        until(lambda: receiver.messages()[-1]["position"] == str(position))
        sent.kill()
    messages = receiver.messages()
    assert [one["sequence"] for one in messages] == list(range(1, len(messages) + 1))
    for number, message in enumerate(messages, start=1):
        held = added_up(messages[:number])
        gone = {} if start == "content" else {"row 0": -1}
        assert held == {**gone, f"row {int(message['position']) - 1}": 1}
