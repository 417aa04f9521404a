"""A bank in PostgreSQL, captured, in views, served and followed, under fault after fault; then everything is compared.

What must hold: the balances add up to 0 in every answer and in every event; positions never go back; after each fault
something new is published; and at the end the database, the log, the views and what a follower was told are the same.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import headwater as hw
from headwater.log.embedded.position import commit_of
from tests.postgres.bank import Clients, assert_balanced, open_bank
from tests.postgres.servers import Server
from tests.server.shop import Event, added_up
from tests.torture.faults import FAULTS
from tests.torture.processes import HEADWATER, Command, free_port
from tests.torture.witnesses import TOTAL, Follower, Reader, Witness

TABLES = ("checking", "savings")
RECOVERY_SECONDS_MAX = 300
_APPLICATION = """
from datetime import timedelta

import headwater as hw
from headwater.log.embedded.position import commit_of

app = hw.App("bank", log="./data", master="local[2]")
app.postgres({url!r}, name={name!r}, tables=["checking", "savings"], heartbeat=timedelta(seconds=0.3))
BOTH = '''SELECT 'checking' AS kind, id, balance FROM {name}.checking
          UNION ALL SELECT 'savings' AS kind, id, balance FROM {name}.savings'''
app.view("accounts", BOTH)
app.view("total", "SELECT sum(balance) AS total, count(*) AS accounts FROM accounts")
app.view("rich", "SELECT kind, id, balance FROM accounts ORDER BY balance DESC, kind, id LIMIT 10")
app.view("spread", "SELECT kind, stddev(balance) AS spread, max(balance) AS most FROM accounts GROUP BY kind")
"""
VIEWS = ("accounts", TOTAL, "rich", "spread")


@dataclass(frozen=True)
class Survived:
    """What a fault did: how long until something new was published."""

    fault: str
    seconds: float


class Torture:
    """One application and its seed: the same seed has the same faults in the same order."""

    def __init__(self, server: Server, database: str, directory: Path, seed: int) -> None:
        self._server, self._database, self._directory = server, database, directory
        self._dice = random.Random(seed)
        self._topics = [f"s{database}.{table}" for table in TABLES]
        text = _APPLICATION.format(url=server.url(database), name=f"s{database}")
        (directory / "app.py").write_text(text)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.run = self._new_run()
        self.serve = Command(directory, "serve", "serve", "app.py", "--port", str(port))
        with server.connect(database) as connection:
            open_bank(connection)
        self._clients = Clients(server, database, 3, seed, pause=0.01)
        self.reader, self.follower = Reader(self.url), Follower(self.url)
        self._witnesses: list[Witness] = []

    def torture(self, faults: int) -> Iterator[Survived]:
        """This many faults, each when the one before is over; then everything is compared."""
        try:
            self._begin()
            for fault in self._chosen(faults):
                began = time.monotonic()
                FAULTS[fault](self, self._dice)
                self._recover()
                yield Survived(fault, time.monotonic() - began)
            self._check()
        finally:
            self._end()

    def kill_database(self) -> None:
        self._server.kill()

    def start_database(self) -> None:
        self._server.start()

    def second_run(self) -> None:
        """One that is not told to take over ends by itself; one that is told to fences the first, which ends."""
        refused = self._new_run("refused")
        refused.start()
        self._until(lambda: not refused.is_alive, "a second run did not end by itself")
        first, self.run = self.run, self._new_run("run", "--take-over")
        self.run.start()
        self._until(lambda: not first.is_alive, "the run that was taken over from did not end")

    def _new_run(self, name: str = "run", *options: str) -> Command:
        return Command(self._directory, name, "run", "app.py", "--no-server", "--json", *options)

    def _chosen(self, count: int) -> list[str]:
        """Every kind once before any comes again."""
        chosen: list[str] = []
        while len(chosen) < count:
            chosen += self._dice.sample(list(FAULTS), len(FAULTS))
        return chosen[:count]

    def _begin(self) -> None:
        self.run.start()
        # The log is there when the topics are.
        self._until(self._has_topics, "the tables were not captured")
        self.serve.start()
        self._until(lambda: self._position() is not None, "nothing was published")
        self._witnesses = [Witness(self.reader.look), Witness(self.follower.look)]

    def _recover(self) -> None:
        """Starts again what is gone, as a supervisor does; returns when a commit of now is published."""
        for command in (self.run, self.serve):
            if not command.is_alive:
                command.start()
        with hw.open(self._directory / "data", upkeep=False) as log:
            reached = log.position()
        self._until(lambda: (self._position() or 0) > commit_of(reached), f"nothing new was published after {reached}")
        for witness in self._witnesses:
            witness.check()

    def _check(self) -> None:
        self._clients.stop()
        with self._server.connect(self._database) as connection:
            expected = {
                (table, *row) for table in TABLES for row in connection.execute(f"SELECT id, balance FROM {table}")
            }
        self._until(lambda: self._accounts() == expected, "the views are not what the database is")
        self._until(lambda: self.follower.content == self._total(), "the follower has not what the view has")
        for witness in self._witnesses:
            witness.stop()
            witness.check()
        self.serve.end()
        self.run.end()
        with hw.open(self._directory / "data") as log:
            assert_balanced(log, self._topics)
            found = {
                (table, row["id"], row["balance"])
                for table, topic in zip(TABLES, self._topics, strict=True)
                for row in log.table(topic).to_pylist()
            }
        assert found == expected
        verified = subprocess.run(
            [*HEADWATER, "verify", "app.py", "--json"], cwd=self._directory, capture_output=True, text=True, check=False
        )
        assert verified.returncode == 0, verified.stdout + verified.stderr

    def _end(self) -> None:
        self._clients.stop()
        for witness in self._witnesses:
            witness.stop()
        self.reader.close()
        self.serve.kill()
        self.run.kill()

    def _has_topics(self) -> bool:
        if not (self._directory / "data" / "catalog.db").exists():
            return False
        with hw.open(self._directory / "data", upkeep=False) as log:
            return set(self._topics) <= {topic.name for topic in log.topics()}

    def _until(self, condition: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, f"{problem}: {self.run.said()} {self.serve.said()}"
            for command in (self.run, self.serve):
                if command.has_started and not command.is_alive:
                    command.start()
            time.sleep(0.2)

    def _position(self) -> int | None:
        body = self._get(f"/views/{TOTAL}")
        return None if body is None else int(body["position"])

    def _accounts(self) -> set[tuple[str, int, int]] | None:
        body = self._get("/views/accounts?limit=10000")
        return None if body is None else {(row["kind"], row["id"], row["balance"]) for row in body["rows"]}

    def _total(self) -> dict[str, int]:
        body = self._get(f"/views/{TOTAL}") or {"rows": []}
        return added_up([Event("snapshot", None, {"changes": [{"weight": 1, "row": row} for row in body["rows"]]})])

    def _get(self, path: str) -> Any:
        try:
            answered = httpx.get(self.url + path, timeout=10)
        except httpx.HTTPError:
            return None
        return json.loads(answered.text) if answered.status_code == 200 else None
