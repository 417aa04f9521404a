"""Queries over views in DuckDB: read-only SQL over the content of views, all at one position."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import duckdb
import pyarrow as pa

from headwater.engine.failures import UnknownView
from headwater.engine.reading import WAIT, Reader, Snapshot
from headwater.errors import InvalidQuery
from headwater.model.position import Position

_READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
# As DuckDB shows where something is wrong: the line, cut if it is long, and a caret below.
_PLACE = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^+\s*$")
_MISSING = re.compile(r"Table with name (\S+) does not exist")
_KIND = re.compile(r"^[A-Z][\w ]* Error: ")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gives, and the position that all views had."""

    position: Position
    table: pa.Table


def query(reader: Reader, sql: str, *, at_least: Position | None = None, timeout: timedelta = WAIT) -> Answer:
    """Runs one statement that reads. Raises `InvalidQuery`, `UnknownView`, `NotYet`."""
    with duckdb.connect(config={"enable_external_access": False}) as connection:
        try:
            connection.execute("SET TimeZone = 'UTC'")
            names = _read_by(connection, sql)
            snapshot = _content(reader, names, at_least, timeout)
            for name, table in snapshot.tables.items():
                connection.register(name, table)
            # What is asked for must not reach outside, nor change that it must not.
            connection.execute("SET lock_configuration = true")
            return Answer(snapshot.position, connection.sql(sql).to_arrow_table())
        except duckdb.Error as error:
            missing = _MISSING.search(str(error))
            raise UnknownView(missing[1], reader.views()) if missing else _wrong(sql, error) from error


def _read_by(connection: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise InvalidQuery(None, f"It has {len(statements)} statements, where one is expected.")
    if statements[0].type not in _READS:
        raise InvalidQuery(None, f"{statements[0].type.name} does not only read: a query begins with SELECT.")
    try:
        return set(connection.get_table_names(sql))
    except duckdb.BinderException:
        # It wants to know columns, such as those that * stands for, and there are no views yet.
        return set()


def _content(reader: Reader, names: set[str], at_least: Position | None, timeout: timedelta) -> Snapshot:
    """The views that a query reads; all, if it names something else, such as the catalog of tables."""
    position = reader.read([], at_least, timeout).position
    views: Sequence[str] = reader.views()
    lowered = {name.lower() for name in names}
    wanted = [view for view in views if view.lower() in lowered]
    return reader.read(wanted if wanted and len(wanted) == len(lowered) else views, position, timeout)


def _wrong(sql: str, error: duckdb.Error) -> InvalidQuery:
    message = str(error)
    place = _PLACE.search(message)
    reason = _KIND.sub("", message[: place.start()] if place else message).strip()
    reason = ". ".join(line.rstrip(".") for line in reason.splitlines())
    reason = reason if reason.endswith((".", "!", "?")) else f"{reason}."
    if place is None:
        return InvalidQuery(None, reason)
    number, shown, before = int(place[1]), place[2], len(place[3]) - len(f"LINE {place[1]}: ")
    line = sql.splitlines()[number - 1] if number <= len(sql.splitlines()) else ""
    start = line.find(shown.removeprefix("...").removesuffix("..."))
    column = start + before - (3 if shown.startswith("...") else 0) + 1
    return InvalidQuery(None, reason, line=number, column=max(column, 1), sql=sql)
