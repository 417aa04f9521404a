"""The shop's customers as a process: it fills database and topics until it is ended.

`python -m headwater.demo.traffic`, with SHOP_DATABASE, SHOP_SERVER and SHOP_SEED in the environment. Whatever is down,
it continues with the rest: without the database people still look around, and without the server they still buy.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from headwater.demo.generator import Generator, Known, PageView, Transaction
from headwater.demo.history import known
from headwater.demo.sending import Client
from headwater.errors import Determinate

EVERY_SECONDS = 1.0
"""Batches take about half of that: what somebody else commits meets an idle pipeline more often than not."""
PAGE_VIEWS_HELD_MAX = 10_000
"""Page views that wait for the server; older ones are given up."""
CONNECT_SECONDS = "3"


class Till:
    """Carries out transactions in order. What cannot be carried out now waits, and is tried again."""

    def __init__(self, url: str) -> None:
        self._conninfo = make_conninfo(url, connect_timeout=CONNECT_SECONDS, application_name="shop")
        self._connection: psycopg.Connection[Any] | None = None
        self._waiting: deque[Transaction] = deque()
        self.done = 0

    def __call__(self, transactions: list[Transaction]) -> bool:
        """Whether all are carried out."""
        self._waiting.extend(transactions)
        try:
            while self._waiting:
                connection = self.connection()
                with connection.transaction():
                    for statement in self._waiting[0]:
                        connection.execute(statement.sql.encode(), statement.values)
                self._waiting.popleft()
                self.done += 1
        except psycopg.OperationalError:
            self.close()
            return False
        return True

    def connection(self) -> psycopg.Connection[Any]:
        """Raises `psycopg.OperationalError`."""
        if self._connection is None:
            self._connection = psycopg.connect(self._conninfo, autocommit=True)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


class Pages:
    """Sends page views to the server. What it does not take is sent again, and appended once."""

    def __init__(self, url: str, name: str) -> None:
        self._client, self._name = Client(url), name
        self._waiting: deque[PageView] = deque(maxlen=PAGE_VIEWS_HELD_MAX)
        self._sending: list[PageView] = []
        self._number = 0
        self.done = 0

    def __call__(self, views: list[PageView]) -> bool:
        """Whether the server has taken all."""
        self._waiting.extend(views)
        try:
            self._send()
        except Determinate:
            return False
        return True

    def close(self) -> None:
        self._client.close()

    def _send(self) -> None:
        if not self._sending:
            self._sending = list(self._waiting)
            self._waiting.clear()
            self._number += 1
        if self._sending:
            # The same records under the same key, until there is an answer.
            self._client.post("/topics/page_views/records", self._sending, key=f"{self._name}-{self._number}")
            self.done += len(self._sending)
            self._sending = []


def run(database: str, server: str, seed: int, ended: Callable[[], bool] = lambda: False) -> None:
    """Makes traffic until somebody ends it."""
    till = Till(database)
    began = datetime.now(UTC)
    generator = Generator(seed, _held(till), began)
    pages = Pages(server, f"shop-{began.timestamp():.0f}")
    following = time.monotonic()
    shop_is_open = True
    try:
        while not ended():
            now = datetime.now(UTC)
            pages(generator.browse(now))
            # While the database is away, nobody can buy: what was begun waits, and nothing new is begun.
            shop_is_open = till(generator.trade(now) if shop_is_open else [])
            following = max(following + EVERY_SECONDS, time.monotonic())
            time.sleep(max(0.0, following - time.monotonic()))
    finally:
        till.close()
        pages.close()


def _held(till: Till) -> Known:
    """What the database holds, as soon as it answers."""
    while True:
        try:
            return known(till.connection())
        except psycopg.OperationalError:
            till.close()
            time.sleep(EVERY_SECONDS)


def main() -> None:
    """The process."""
    try:
        run(os.environ["SHOP_DATABASE"], os.environ["SHOP_SERVER"], int(os.environ["SHOP_SEED"]))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
