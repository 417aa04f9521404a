"""The load of `tools/soak.py`: commits at an even rate, rows by key, queries and a follower, until it is ended."""

from __future__ import annotations

import argparse
import json
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.port import Log

CUSTOMERS, PRODUCTS, ORDERS, SESSIONS = 2_000, 200, 20_000, 5_000
"""Rows are replaced, not added: what the views hold is as large after an hour as after some minutes."""
COUNTRIES, SEGMENTS, CATEGORIES = 20, 4, 12
STATUSES, DEVICES = ("placed", "paid", "shipped", "cancelled"), ("phone", "tablet", "desktop")
READ_SECONDS, READS_PER_QUERY = 1.0, 5
FOLLOWED, READ_BY_KEY = "revenue_by_country", "orders_by_customer"
QUERY = "SELECT country, count(*) AS n FROM sold GROUP BY country ORDER BY n DESC"


class Rows:
    """Random rows of every topic."""

    def __init__(self, seed: int) -> None:
        self._dice = np.random.default_rng(seed)

    def customer(self, number: int | None = None) -> dict[str, object]:
        chosen = self._below(CUSTOMERS) if number is None else number
        return {
            "id": chosen, "country": f"country {self._below(COUNTRIES)}", "segment": f"segment {self._below(SEGMENTS)}"
        }  # fmt: skip

    def product(self, number: int | None = None) -> dict[str, object]:
        chosen = self._below(PRODUCTS) if number is None else number
        return {"id": chosen, "category": f"category {chosen % CATEGORIES}", "price": self._below(1000)}

    def order(self) -> dict[str, object]:
        return {
            "id": self._below(ORDERS), "customer": self._below(CUSTOMERS), "product": self._below(PRODUCTS),
            "amount": self._below(1000), "status": STATUSES[self._below(len(STATUSES))],
        }  # fmt: skip

    def payment(self) -> dict[str, object]:
        number = self._below(ORDERS)
        return {"id": number, "order_id": number, "paid": self._below(1000)}

    def click(self) -> dict[str, object]:
        return {
            "session": self._below(SESSIONS), "product": self._below(PRODUCTS), "seconds": self._below(300),
            "device": DEVICES[self._below(len(DEVICES))],
        }  # fmt: skip

    def of_one_commit(self) -> dict[str, list[dict[str, object]]]:
        """An order always, other topics now and then: four records in three commits."""
        found = {"orders": [self.order()]}
        for topic, make, percent in (
            ("payments", self.payment, 15), ("clicks", self.click, 15), ("customers", self.customer, 2),
            ("products", self.product, 1),
        ):  # fmt: skip
            if self._below(100) < percent:
                found[topic] = [make()]
        return found

    def _below(self, end: int) -> int:
        return int(self._dice.integers(0, end))


def fill(log: Log, rows: Rows) -> None:
    """What is there before the first order."""
    log.append("customers", [rows.customer(number) for number in range(CUSTOMERS)])
    log.append("products", [rows.product(number) for number in range(PRODUCTS)])


def write(log: Log, rows: Rows, rate: float) -> None:
    """Commits at even times for ever; one that comes late does not make the next ones late."""
    began, number = time.monotonic(), 0
    while True:
        number += 1
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        with log.commit() as commit:
            for topic, found in rows.of_one_commit().items():
                commit.append(topic, found)


def read(url: str) -> None:
    """Reads rows by key, and queries all views now and then."""
    number = 0
    while True:
        time.sleep(READ_SECONDS)
        number += 1
        with suppress(urllib.error.URLError, OSError):
            _answer(f"{url}/views/{READ_BY_KEY}/rows/{number % CUSTOMERS}")
            if number % READS_PER_QUERY == 0:
                _answer(f"{url}/query", {"sql": QUERY})


def follow(url: str) -> None:
    """Follows a view, again whenever the connection ends."""
    while True:
        with (
            suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"{url}/views/{FOLLOWED}/changes") as events,
        ):
            for _ in events:
                pass
        time.sleep(READ_SECONDS)


def _answer(url: str, body: dict[str, str] | None = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--rate", type=float, required=True, help="commits a second")
    parser.add_argument("--url", required=True, help="of the server")
    options = parser.parse_args()
    rows = Rows(seed=1)
    with EmbeddedLog(options.log) as log:
        fill(log, rows)
        for target in (read, follow):
            threading.Thread(target=target, args=(options.url,), daemon=True).start()
        write(log, rows, options.rate)


if __name__ == "__main__":
    main()
