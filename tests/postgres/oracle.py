"""Compares a database with the log: the same rows, by content, read by a way that shares nothing with capture."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import psycopg

from headwater.cdc.postgres.lsn import Lsn
from headwater.connectors.postgres.capture import Capture
from headwater.log.port import Log


def catch_up(capture: Capture, source: psycopg.Connection[Any], seconds: float = 300) -> None:
    """Captures everything that was committed by now, and every job that was asked for."""
    row = source.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    end, deadline = Lsn.parse(row[0]), time.monotonic() + seconds

    def reached(capture: Capture) -> bool:
        if time.monotonic() > deadline:
            raise AssertionError(f"not at {end}: {capture.applier and capture.applier.passed}")
        state: Any = capture.log.bookmark(capture.options.names.snapshot)
        assert capture.applier is not None
        return capture.applier.passed >= end and not state["jobs"] and not capture.tables.incomplete

    capture.run(reached)


def wait_for(true: Callable[[], object], seconds: float = 300) -> None:
    """Returns when it is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def source_rows(source: psycopg.Connection[Any], query: str) -> list[dict[str, Any]]:
    """The rows of a query as PostgreSQL writes them in JSON."""
    rows = source.execute(f"SELECT to_jsonb(t) FROM ({query}) t").fetchall()
    return [row[0] for row in rows]


def log_rows(log: Log, topic: str) -> list[dict[str, Any]]:
    """The table of a topic, with values as JSON has them."""
    return [_plain(row) for row in log.table(topic).to_pylist()]


def assert_same(source: psycopg.Connection[Any], log: Log, capture: Capture, tables: Iterable[str]) -> None:
    """That the log has what the database has, for tables whose values JSON shows alike."""
    for table in tables:
        expected = sorted(map(_canonical, source_rows(source, f"SELECT * FROM {table}")))
        found = sorted(map(_canonical, log_rows(log, capture.options.names.topic("public", table))))
        assert found == expected, f"{table}: {len(found)} rows in the log, {len(expected)} in the database"


def _canonical(row: dict[str, Any]) -> str:
    return json.dumps({name: _plain(value) for name, value in row.items()}, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, Decimal):
        return float(value)
    return value
