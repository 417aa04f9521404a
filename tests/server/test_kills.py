"""A server that is killed, again and again, while a client writes and another follows: nothing is lost or twice."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from headwater.log.embedded.log import EmbeddedLog
from tests.server.shop import Event, added_up, application, following
from tests.unit.engine.samples import Driver, zset

KILLS = 5
ROOT = Path(__file__).parents[2]


class Served:
    """A server in a process of its own, always on the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory, self.port = directory, 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.server.killed", str(self._directory), str(self.port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server did not start"
        self.port = int(line)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate(timeout=20)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.001)


@pytest.fixture
def published(tmp_path: Path) -> Driver:
    with application(tmp_path) as app:
        driver = Driver(app.directory)
    driver.publish({"v": zset((1, 1, "one", 1))}, 0)
    return driver


@pytest.mark.timeout(180)
def test_a_follower_of_a_killed_server_misses_nothing_and_gets_nothing_twice(tmp_path: Path, published: Driver) -> None:
    served = Served(tmp_path)
    got: list[Event] = []
    last: str | None = None
    done = threading.Event()

    def follow() -> None:
        nonlocal last
        while not done.is_set():
            try:
                with following(served.url, "/views/v/changes", last) as events:
                    for event in events:
                        if event.name == "dropped":
                            break
                        got.append(event)
                        last = event.id or last
            except (httpx.HTTPError, AssertionError):
                time.sleep(0.05)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    wait_for(lambda: last == "0.1")
    position = 0
    for _ in range(KILLS):
        for _ in range(20):
            position += 1
            published.publish({"v": zset((position + 10, position + 10, f"at {position}", 1))}, position)
            time.sleep(0.005)
        served.kill()
        for _ in range(5):
            position += 1
            published.publish({"v": zset((position + 10, position + 10, f"at {position}", 1))}, position)
        served.start()
    wait_for(lambda: last == f"{position}.1")
    done.set()
    served.kill()
    published.close()
    thread.join(20)
    assert [one.id for one in got] == [f"{number}.1" for number in range(position + 1)]
    assert [one.name for one in got].count("snapshot") == 1
    assert len(added_up(got)) == position + 1


@pytest.mark.timeout(180)
def test_a_key_is_appended_once_whenever_the_server_is_killed(tmp_path: Path, published: Driver) -> None:
    published.close()
    served = Served(tmp_path)
    answers: dict[int, str] = {}
    sent = 0

    def write() -> None:
        nonlocal sent
        while not done.is_set():
            while not done.is_set():
                try:
                    answered = httpx.post(
                        f"{served.url}/topics/clicks/records",
                        json=[{"user": sent, "url": "a"}, {"user": sent, "url": "b"}],
                        headers={"Idempotency-Key": f"key {sent}"},
                        timeout=5,
                    )
                    answers[sent] = answered.json()["position"]
                    break
                except httpx.HTTPError:
                    time.sleep(0.02)
            sent += 1

    done = threading.Event()
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    for number in range(KILLS):
        reached = len(answers) + 5
        wait_for(lambda: len(answers) >= reached)  # noqa: B023 - it is called at once
        time.sleep(0.002 * number)
        served.kill()
        served.start()
    done.set()
    thread.join(20)
    served.kill()
    with EmbeddedLog(tmp_path / "data", upkeep=False) as log:
        found = [
            (record.value["user"], record.value["url"], str(record.position))
            for record in log.read("clicks")
            if record.value
        ]
    assert len(answers) > KILLS
    for user, position in answers.items():
        assert [(url, at) for who, url, at in found if who == user] == [("a", position), ("b", position)]
    assert {who for who, _, _ in found} - answers.keys() <= {sent, sent - 1}
