"""Views over a bank, kept up to date in this process, whatever happens to the capture in others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

import headwater as hw

TABLES = ("checking", "savings")


class BankViews:
    """`follow` as often as you like, `check` at the end; the topics may not be there yet."""

    def __init__(self, log: Path, source: str) -> None:
        self._log, self._source = log, source
        self._app: hw.App | None = None
        self.positions = 0

    def follow(self) -> None:
        """Brings the views to where the log is; all balances add up to 0 there."""
        if self._app is None and not self._has_topics():
            return
        if self._app is None:
            self._app = hw.App(f"{self._source}-views", log=self._log)
            both = " UNION ALL ".join(
                f"SELECT '{table}' AS kind, id, balance FROM {self._source}.{table}" for table in TABLES
            )
            self._app.view("accounts", both)
            self._app.view("total", f"SELECT sum(balance) AS total, count(*) AS accounts FROM ({both}) every")
        self._app.catch_up()
        self.positions += 1
        [total] = self._app.read("total").to_pylist() or [{"total": None, "accounts": 0}]
        assert total["total"] in (0, None), f"the balances add up to {total}"

    def check(self, connection: psycopg.Connection[Any]) -> None:
        """That the views have what the database has."""
        self.follow()
        assert self._app is not None
        found = {(row["kind"], row["id"], row["balance"]) for row in self._app.read("accounts").to_pylist()}
        expected = {
            (table, *row) for table in TABLES for row in connection.execute(f"SELECT id, balance FROM {table}".encode())
        }
        assert found == expected, f"{len(found)} accounts in the view, {len(expected)} in the database"
        assert self._app.verify("accounts").equal

    def close(self) -> None:
        if self._app is not None:
            self._app.close()

    def _has_topics(self) -> bool:
        with hw.open(self._log, upkeep=False) as log:
            return {f"{self._source}.{table}" for table in TABLES} <= {topic.name for topic in log.topics()}
