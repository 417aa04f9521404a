"""A bank: accounts in two tables, transfers between them by many clients; all balances together are always 0.

    checking(id, balance), savings(id, balance, note)
    a transfer takes from one table and gives to the other, in one transaction; some are rolled back, some move in
    steps with savepoints, some delete an empty account or open it again

What must hold of a log that captures it: after every commit the balances add up to 0, no commit of the database is
missing, none is there twice, and at the end the log has what the database has.
"""

from __future__ import annotations

import random
import threading
from typing import Any

import psycopg

from headwater.log.port import Log
from tests.postgres.servers import Server

ACCOUNTS = 200


def open_bank(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TABLE checking (id int4 PRIMARY KEY, balance int8 NOT NULL)")
    connection.execute("CREATE TABLE savings (id int4 PRIMARY KEY, balance int8 NOT NULL, note text)")
    for table in ("checking (id, balance)", "savings (id, balance)"):
        connection.execute(f"INSERT INTO {table} SELECT g, 0 FROM generate_series(1, {ACCOUNTS}) g".encode())


class Clients:
    """Threads that transfer until they are stopped, whatever happens to the server meanwhile."""

    def __init__(self, server: Server, database: str, count: int, seed: int, pause: float = 0.0) -> None:
        self._server, self._database, self._pause = server, database, pause
        self._stop = threading.Event()
        self.transfers = 0
        self._threads = [threading.Thread(target=self._work, args=(seed * 100 + n,)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, seed: int) -> None:
        rng = random.Random(seed)
        while not self._stop.is_set():
            try:
                with self._server.connect(self._database) as connection:
                    while not self._stop.is_set():
                        transfer(connection, rng)
                        self.transfers += 1
                        self._stop.wait(self._pause)
            except psycopg.Error:  # killed, or in the way of another: nothing of the transaction has happened
                self._stop.wait(0.05)


def transfer(connection: psycopg.Connection[Any], rng: random.Random) -> None:
    first, second, amount = rng.randint(1, ACCOUNTS), rng.randint(1, ACCOUNTS), rng.randint(1, 100)
    with connection.transaction(force_rollback=rng.random() < 0.1):
        taken = connection.execute("UPDATE checking SET balance = balance - %s WHERE id = %s", (amount, first)).rowcount
        with connection.transaction(force_rollback=rng.random() < 0.2):
            connection.execute("UPDATE savings SET note = %s WHERE id = %s", (str(amount) * 30, second))
        connection.execute(
            "INSERT INTO savings AS s VALUES (%s, %s) "
            "ON CONFLICT (id) DO UPDATE SET balance = s.balance + excluded.balance",
            (second, amount if taken else 0),
        )
        if rng.random() < 0.1:
            connection.execute("DELETE FROM savings WHERE balance = 0")
        if rng.random() < 0.05:
            connection.execute("UPDATE savings SET id = id + 1000 WHERE id = %s AND id < 1000", (second,))


def assert_balanced(log: Log, topics: list[str]) -> int:
    """That the balances add up to 0 after every commit, and no transaction is there twice; how many commits."""
    balances: dict[tuple[str, object], int] = {}
    total, commit, transactions, commits = 0, None, set[tuple[str, str]](), 0
    for record in log.read(topics):
        if record.position != commit:
            assert total == 0, f"the balances add up to {total} after {commit}"
            commit, commits = record.position, commits + 1
            if "xid" in record.headers:
                own = (record.headers["xid"], record.headers["lsn"])
                assert own not in transactions, f"transaction {own} is in two commits"
                transactions.add(own)
        value = record.value["balance"] if record.value is not None else 0
        assert isinstance(value, int)
        total += value - balances.get((record.topic, record.key), 0)
        balances[record.topic, record.key] = value
    assert total == 0
    return commits
