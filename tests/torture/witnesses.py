"""Those who look at a bank all the time, through the server: the one that sees money appear or vanish says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import httpx

from headwater.server.sse import Mark
from tests.server.shop import Event, added_up, following

TOTAL = "total"
_NOTHING = (0, "0", None)


class Wrong(Exception):
    """Something that may never be seen."""


class Witness:
    """A thread that looks again and again. A server that is gone or busy is no news; a wrong answer is."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look, self._stop = look, threading.Event()
        self.wrong: list[str] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def check(self) -> None:
        assert not self.wrong, self.wrong[0]

    def _work(self) -> None:
        while not self._stop.wait(0.2):
            try:
                self._look()
            except (httpx.HTTPError, AssertionError):
                # The server is gone, ends, or has nothing yet.
                continue
            except Wrong as error:
                self.wrong.append(str(error))
                return


class Reader:
    """Reads the total, and queries the accounts: 0 at every position, and positions never go back."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30)
        self._last = 0
        self.positions: set[int] = set()
        self.queries = 0

    def close(self) -> None:
        self._client.close()

    def look(self) -> None:
        answered = self._client.get(f"/views/{TOTAL}")
        if answered.status_code == 200:
            body = answered.json()
            position = int(body["position"])
            if position < self._last:
                raise Wrong(f"position {position} after {self._last}")
            self._last = position
            self.positions.add(position)
            assert_balanced([json.dumps(row) for row in body["rows"]], position)
        sql = "SELECT sum(balance) AS total FROM accounts"
        answered = self._client.post("/query", json={"sql": sql})
        if answered.status_code == 200:
            self.queries += 1
            [row] = answered.json()["rows"]
            if row["total"] not in _NOTHING:
                raise Wrong(f"a query found {row}")


class Follower:
    """Follows the total, resumes where it was, and adds up what it is told."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._mark: Mark | None = None
        self.content: dict[str, int] = {}
        self.events = 0

    def look(self) -> None:
        last = None if self._mark is None else str(self._mark)
        with following(self._url, f"/views/{TOTAL}/changes", last) as events:
            pending: list[Event] = []
            for event in events:
                self._take(event, pending)

    def _take(self, event: Event, pending: list[Event]) -> None:
        if event.name not in ("snapshot", "change"):
            return
        pending.append(event)
        if event.id is None:
            return
        self.content = added_up(pending, self.content)
        pending.clear()
        self.events += 1
        mark = Mark.parse(event.id)
        if self._mark is not None and mark <= self._mark and event.name != "snapshot":
            raise Wrong(f"change {mark} after {self._mark}")
        self._mark = mark
        if any(weight < 0 for weight in self.content.values()):
            raise Wrong(f"a row is there less than zero times at {mark}")
        assert_balanced(list(self.content), mark)


def assert_balanced(rows: list[str], position: object) -> None:
    """Raises `Wrong` if the balances do not add up to 0."""
    for row in map(json.loads, rows):
        if row["total"] not in _NOTHING:
            raise Wrong(f"the balances add up to {row['total']} at {position}")
