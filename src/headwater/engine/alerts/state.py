"""The state of one alert on disk: the rows that are there, which of them have fired, and records for the history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from headwater.engine.alerts.history import AlertRecord, Turn
from headwater.engine.alerts.rule import Rule
from headwater.system import sqlite
from headwater.system.clock import instant, microseconds

_TABLES = """
CREATE TABLE entries (key TEXT PRIMARY KEY, since INTEGER, fired TEXT, fired_at INTEGER, position TEXT, row TEXT);
CREATE INDEX waiting ON entries (since) WHERE fired IS NULL;
CREATE TABLE outbox (place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER, record TEXT);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT);
"""


class Row(NamedTuple):
    """A row of the view, as text."""

    key: str
    position: str
    row: str


class AlertState:
    """Changes in transactions, so that the rows, the position and the records for the history agree after a crash.

    Records wait in an outbox. Each number of a commit to the history stands for the same records, however often it is
    tried.
    """

    def __init__(self, path: Path, rule: Rule, owner: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._rule, self._owner = rule, owner
        self._db = sqlite.connect(path)
        if not sqlite.has_tables(self._db):
            sqlite.create_tables(self._db, _TABLES)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # How far it is

    @property
    def stamp(self) -> str | None:
        """The stamp of the last delivery."""
        return self._get("stamp")

    @stamp.setter
    def stamp(self, value: str | None) -> None:
        self._set("stamp", value)

    @property
    def number(self) -> int:
        """How many commits to the history have arrived."""
        return int(self._get("number") or 0)

    def begin_again(self, number: int, firing: Iterable[AlertRecord]) -> None:
        """Forgets everything but what the history says: which rows have fired."""
        with self.transaction():
            for table in ("entries", "outbox", "meta"):
                self._db.execute(f"DELETE FROM {table}")
            self._set("number", str(number))
            self._db.executemany(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)",
                [(r.key, microseconds(r.since), r.id, microseconds(r.at), r.position, r.row) for r in firing],
            )

    # The rows of the view

    def put(self, rows: Iterable[Row], now: int) -> None:
        """Rows that are new, or have changed: those stay what they are, also if they have fired."""
        self._db.executemany(
            "INSERT INTO entries VALUES (?, ?, NULL, NULL, ?, ?) "
            "ON CONFLICT (key) DO UPDATE SET position = excluded.position, row = excluded.row",
            [(row.key, now, row.position, row.row) for row in rows],
        )

    def keep_only(self, keys: set[str]) -> list[str]:
        """The keys of rows that are not among these."""
        return [key for (key,) in self._db.execute("SELECT key FROM entries") if key not in keys]

    def remove(self, keys: Iterable[str], position: str, now: int) -> None:
        """Rows that are gone: those that have fired are cleared."""
        for key in keys:
            found = self._db.execute("SELECT since, fired, row FROM entries WHERE key = ?", (key,)).fetchone()
            if found is None:
                continue
            self._db.execute("DELETE FROM entries WHERE key = ?", (key,))
            since, fired, row = found
            if fired is not None:
                self._add("cleared", fired, key, since, position, row, now)

    def fire(self, now: int, after: int) -> None:
        """Fires the rows that have been there for long enough, in the order in which they came."""
        # If the clock was set back, they have not been there longer than this.
        self._db.execute("UPDATE entries SET since = ? WHERE fired IS NULL AND since > ?", (now, now))
        due = self._db.execute(
            "SELECT key, since, position, row FROM entries WHERE fired IS NULL AND since <= ? ORDER BY since, rowid",
            (now - after,),
        ).fetchall()
        for key, since, position, row in due:
            identity = self._identity()
            self._db.execute("UPDATE entries SET fired = ?, fired_at = ? WHERE key = ?", (identity, now, key))
            self._add("fired", identity, key, since, position, row, now)

    def is_due(self, now: int, after: int) -> bool:
        """Whether `fire` would change anything."""
        first = self._db.execute("SELECT min(since), max(since) FROM entries WHERE fired IS NULL").fetchone()
        return first[0] is not None and (first[0] <= now - after or first[1] > now)

    # The outbox

    def due(self) -> list[AlertRecord]:
        """The records of the next commit; none if nothing is left. They stay the same until they have `arrived`."""
        number = self.number + 1
        with self.transaction():
            begun = self._db.execute("SELECT count(*) FROM outbox WHERE number = ?", (number,)).fetchone()[0]
            if not begun:
                self._db.execute("UPDATE outbox SET number = ?", (number,))
        found = self._db.execute("SELECT record FROM outbox WHERE number = ? ORDER BY place", (number,)).fetchall()
        return [_record(text) for (text,) in found]

    def arrived(self) -> None:
        """The records of the next commit are in the history."""
        number = self.number + 1
        with self.transaction():
            self._db.execute("DELETE FROM outbox WHERE number = ?", (number,))
            self._set("number", str(number))

    def _identity(self) -> str:
        counter = int(self._get("counter") or 0) + 1
        self._set("counter", str(counter))
        # Both numbers: the counter begins again with the state, the other one never does.
        return f"{self._owner}_{self.number}_{counter}"

    def _add(self, event: Turn, identity: str, key: str, since: int, position: str, row: str, now: int) -> None:
        held = {"id": identity, "key": key, "event": event, "at": now, "since": since, "position": position, "row": row}
        held |= {"alert": self._rule.name, "view": self._rule.view}
        self._db.execute("INSERT INTO outbox (record) VALUES (?)", (json.dumps(held),))

    def _get(self, name: str) -> str | None:
        found = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        value: str | None = None if found is None else found[0]
        return value

    def _set(self, name: str, value: str | None) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def _record(text: str) -> AlertRecord:
    held = json.loads(text)
    return AlertRecord(**{**held, "at": instant(held["at"]), "since": instant(held["since"])})
