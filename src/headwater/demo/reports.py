"""The report database: two tables that sinks keep in step, the search over one of them, and ways to damage them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from headwater.errors import Refused

SHOWN_ROWS_MAX = 20
WORDS_MAX = 10
CONNECT_SECONDS = "3"
STATEMENT_TIMEOUT = "10s"
EDITED_ROWS = 5
"""How many orders somebody changes by hand, and how many somebody deletes."""

# The table for searches is made here, since a sink knows of no search: it fills the columns that its view has, and
# PostgreSQL computes the rest. The other table is made by its sink.
_SCHEMA = """
CREATE TABLE orders (
    id int8 PRIMARY KEY, customer text, country text, status text, total numeric(12,2), placed_at timestamptz,
    products text,
    words tsvector GENERATED ALWAYS AS (to_tsvector('english',
        id::text || ' ' || coalesce(customer, '') || ' ' || coalesce(country, '') || ' ' || coalesce(status, '') || ' '
        || coalesce(products, ''))) STORED
);
CREATE INDEX orders_words ON orders USING gin (words);
"""
_SUMS = """
SELECT (SELECT count(*) FROM orders) AS rows,
       (SELECT coalesce(sum(total), 0) FROM orders WHERE status IN ('paid', 'shipped')) AS paid,
       (SELECT coalesce(sum(revenue), 0) FROM revenue) AS revenue
"""
_MATCHING = "WHERE %(query)s = '' OR words @@ to_tsquery('english', %(query)s)"
_SEARCH = f"""
SELECT id, customer, country, status, total::text, placed_at, products FROM orders {_MATCHING}
ORDER BY placed_at DESC, id DESC LIMIT %(limit)s
"""
_COUNT = f"SELECT count(*) AS matching FROM orders {_MATCHING}"
# The oldest orders: nothing happens to them any more that would bring their rows again.
_CHANGE = """
UPDATE orders SET customer = 'Nobody', total = total + 1000
WHERE id IN (SELECT id FROM orders ORDER BY id LIMIT %s)
"""
_DELETE = "DELETE FROM orders WHERE id IN (SELECT id FROM orders ORDER BY id OFFSET %s LIMIT %s)"
_INVENT = """
INSERT INTO orders (id, customer, country, status, total, placed_at, products)
VALUES (-1, 'Nobody', 'AQ', 'shipped', 1000000, now(), 'An order that nobody placed') ON CONFLICT DO NOTHING
"""
_TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"


class Edited(NamedTuple):
    """How many rows somebody has changed by hand."""

    changed: int
    deleted: int
    invented: int


class Reports:
    """The database at a URL. Raises `Refused` when it does not answer."""

    def __init__(self, url: str) -> None:
        self._url, self._name = url, str(conninfo_to_dict(url)["dbname"])
        self._copy = f"{self._name}_copy"

    def create(self) -> None:
        """Makes the table that is searched."""
        with self._connected() as connection:
            connection.execute(_SCHEMA.encode())

    def read(self, text: str) -> dict[str, object]:
        """The newest orders that have all of some words, and what both tables add up to, all as of one moment."""
        asked = {"query": query_of(text), "limit": SHOWN_ROWS_MAX}
        with self._connected() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            found = _only(connection, _COUNT, asked) | _only(connection, _SUMS)
            orders = connection.execute(_SEARCH.encode(), asked).fetchall()
            countries = connection.execute(b"SELECT * FROM revenue ORDER BY revenue DESC").fetchall()
        return {name: _told(value) for name, value in found.items()} | {
            "orders": [{name: _told(value) for name, value in row.items()} for row in orders],
            "countries": [{name: _told(value) for name, value in row.items()} for row in countries],
        }

    def rows(self) -> int:
        """How many orders there are."""
        with self._connected() as connection:
            return int(_only(connection, "SELECT count(*) AS rows FROM orders")["rows"])

    def edit(self) -> Edited:
        """Somebody changes, deletes and invents orders, and tells nobody."""
        with self._connected() as connection, connection.transaction():
            changed = connection.execute(_CHANGE.encode(), (EDITED_ROWS,)).rowcount
            deleted = connection.execute(_DELETE.encode(), (EDITED_ROWS, EDITED_ROWS)).rowcount
            return Edited(changed, deleted, connection.execute(_INVENT.encode()).rowcount)

    def empty(self) -> int:
        """Somebody truncates the table that is searched. Returns how many rows that were."""
        with self._connected() as connection, connection.transaction():
            connection.execute("LOCK TABLE orders")
            rows = int(_only(connection, "SELECT count(*) AS rows FROM orders")["rows"])
            connection.execute("TRUNCATE orders")
            return rows

    def deny(self) -> int:
        """Ends all sessions, and lets nobody in any more. Returns how many sessions that were."""
        with self._connected("postgres") as connection:
            self._alter(connection, "ALTER DATABASE {} ALLOW_CONNECTIONS false", self._name)
            return connection.execute(_TERMINATE, (self._name,)).rowcount

    def allow(self) -> None:
        """Lets everybody in again."""
        with self._connected("postgres") as connection:
            self._alter(connection, "ALTER DATABASE {} ALLOW_CONNECTIONS true", self._name)

    def is_allowed(self) -> bool:
        """Whether everybody can be let in again, and is. False if the server does not answer."""
        with suppress(Refused):
            self.allow()
            return True
        return False

    def copy(self) -> None:
        """Makes a backup: a copy of the database, in place of the last one. If that fails, nobody is let in again."""
        # A database is copied while nobody uses it.
        self.deny()
        with self._connected("postgres") as connection:
            self._alter(connection, "DROP DATABASE IF EXISTS {}", self._copy)
            self._alter(connection, "CREATE DATABASE {} TEMPLATE {}", self._copy, self._name)
        self.allow()

    def restore(self) -> None:
        """Puts the backup in the place of the database: rows and positions are those of the moment it was made."""
        with self._connected("postgres") as connection:
            self._alter(connection, "DROP DATABASE {} WITH (FORCE)", self._name)
            self._alter(connection, "ALTER DATABASE {} RENAME TO {}", self._copy, self._name)

    def _alter(self, connection: psycopg.Connection[Any], statement: str, *names: str) -> None:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    @contextmanager
    def _connected(self, database: str | None = None) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        """A connection, each statement a transaction. Raises `Refused`."""
        conninfo = make_conninfo(
            self._url,
            dbname=database or self._name,
            connect_timeout=CONNECT_SECONDS,
            application_name="reports",
            options=f"-c statement_timeout={STATEMENT_TIMEOUT}",
        )
        try:
            with psycopg.connect(conninfo, autocommit=True, row_factory=dict_row) as connection:
                yield connection
        except psycopg.errors.UndefinedTable as error:
            raise _unavailable("The report database has no content yet") from error
        except psycopg.Error as error:
            raise _unavailable("The report database does not answer") from error


def query_of(text: str) -> str:
    """What people type as a query of PostgreSQL: all words, each of them perhaps only begun."""
    return " & ".join(f"{word}:*" for word in re.findall(r"\w+", text)[:WORDS_MAX])


def _only(connection: psycopg.Connection[dict[str, Any]], query: str, values: Any = None) -> dict[str, Any]:
    row = connection.execute(query.encode(), values).fetchone()
    assert row is not None, "it has one row"
    return row


def _told(value: object) -> object:
    """A value of a row as JSON has it."""
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _unavailable(message: str) -> Refused:
    return Refused(503, "reports_unavailable", f"{message}.", hint="This page continues by itself as soon as it does.")
