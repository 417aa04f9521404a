"""Queries over views in DuckDB: read-only SQL over the content of views, all at one position."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import duckdb
import pyarrow as pa

from headwater.engine.failures import QueryTooLarge, QueryTooLong, UnknownView
from headwater.engine.reading import WAIT, Reader, Snapshot
from headwater.errors import InvalidQuery
from headwater.model.position import Position

ROWS_AT_ONCE = 256
"""Rows of an answer that are fetched together."""
INTERRUPT_EVERY_SECONDS = 0.05

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
    cut: bool = False


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """How long a query may take, how many rows and bytes it may give, and how much memory it may use."""

    duration: timedelta
    rows: int
    answer_bytes: int
    memory_bytes: int


def query(
    reader: Reader,
    sql: str,
    *,
    at_least: Position | None = None,
    timeout: timedelta = WAIT,
    limits: QueryLimits | None = None,
) -> Answer:
    """Runs one statement that reads. Raises `InvalidQuery`, `UnknownView`, `NotYet`, `QueryTooLong`, `QueryTooLarge`.

    With limits, an answer that has more rows ends there and is `cut`.
    """
    config: dict[str, str | bool | int | float | list[str]] = {"enable_external_access": False}
    if limits is not None:
        # Without a place for temporary files, what needs more memory fails instead of filling the disk.
        config |= {"memory_limit": f"{limits.memory_bytes}B", "temp_directory": ""}
    with duckdb.connect(config=config) as connection, _in_time(connection, limits):
        try:
            connection.execute("SET TimeZone = 'UTC'")
            # A name in SQL must never mean a variable of this program.
            connection.execute("SET python_enable_replacements = false")
            names = _read_by(connection, sql)
            snapshot = _content(reader, names, at_least, timeout)
            for name, table in snapshot.tables.items():
                connection.register(name, table)
            # What is asked for must not reach outside, nor change that it must not.
            connection.execute("SET lock_configuration = true")
            relation = connection.sql(sql)
            if limits is None:
                return Answer(snapshot.position, relation.to_arrow_table())
            return _limited(relation, snapshot.position, limits)
        except duckdb.Error as error:
            missing = _MISSING.search(str(error))
            raise UnknownView(missing[1], reader.views()) if missing else _wrong(sql, error) from error


@contextmanager
def _in_time(connection: duckdb.DuckDBPyConnection, limits: QueryLimits | None) -> Iterator[None]:
    """Ends what a connection does when its time is over; planning and EXPLAIN ANALYZE count as well."""
    if limits is None:
        yield
        return
    seconds, done, over = limits.duration.total_seconds(), threading.Event(), threading.Event()

    def end() -> None:
        if done.wait(seconds):
            return
        over.set()
        # Between two statements there is nothing to interrupt, and then the next one has to be.
        while not done.wait(INTERRUPT_EVERY_SECONDS):
            connection.interrupt()

    ending = threading.Thread(target=end, name="headwater-query-limit", daemon=True)
    ending.start()
    try:
        yield
    except (duckdb.Error, InvalidQuery) as error:
        if over.is_set():
            raise QueryTooLong(seconds) from error
        raise
    finally:
        done.set()
        ending.join()


def _limited(relation: duckdb.DuckDBPyRelation, position: Position, limits: QueryLimits) -> Answer:
    try:
        reader = relation.limit(limits.rows + 1).to_arrow_reader(ROWS_AT_ONCE)
        batches, size = list[pa.RecordBatch](), 0
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size > limits.answer_bytes:
                raise QueryTooLarge(limits.answer_bytes)
        table = pa.Table.from_batches(batches, reader.schema)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        # Places are counted in the SQL with the limit around it.
        raise InvalidQuery(None, _reason(_PLACE.sub("", str(error)))) from error
    return Answer(position, table.slice(0, limits.rows), cut=table.num_rows > limits.rows)


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
    reason = _reason(message[: place.start()] if place else message)
    if place is None:
        return InvalidQuery(None, reason)
    number, shown, before = int(place[1]), place[2], len(place[3]) - len(f"LINE {place[1]}: ")
    line = sql.splitlines()[number - 1] if number <= len(sql.splitlines()) else ""
    start = line.find(shown.removeprefix("...").removesuffix("..."))
    column = start + before - (3 if shown.startswith("...") else 0) + 1
    return InvalidQuery(None, reason, line=number, column=max(column, 1), sql=sql)


def _reason(message: str) -> str:
    """What DuckDB says, as one sentence or some."""
    reason = ". ".join(line.rstrip(".") for line in _KIND.sub("", message).strip().splitlines() if line)
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."
