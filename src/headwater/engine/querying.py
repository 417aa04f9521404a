"""Queries in DuckDB: read-only SQL over the content of views and topics, all at one position."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import duckdb
import pyarrow as pa

from headwater.engine.query_content import Reading
from headwater.engine.reading import WAIT, Reader
from headwater.engine.topic_rows import TopicRows
from headwater.errors import InvalidQuery, QueryOutOfMemory, QueryTooLarge, QueryTooLong
from headwater.model.position import Position

ROWS_AT_ONCE = 256
"""Rows of an answer that are fetched together."""
INTERRUPT_EVERY_SECONDS = 0.05
MESSAGE_CHARACTERS_MAX = 20_000
"""Of what DuckDB says is wrong, in which there may be values of a query."""

_READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
# As DuckDB shows where something is wrong: the line, cut if it is long, and a caret below.
_PLACE = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^+\s*$")
_MISSING = re.compile(r"Table with name (\S+) does not exist")
_OUT_OF_MEMORY = "Out of Memory Error: "
_KIND = re.compile(r"^[A-Z][\w ]* Error: ")
_BROKEN = re.compile(r"^(INTERNAL|FATAL) Error: ")
_TRACE = re.compile(r"\n+(Stack Trace:|This error signals an assertion failure).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gives, and the position of everything that it reads without saying another one."""

    position: Position
    table: pa.Table
    cut: bool = False


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """How long a query may take, how many bytes it may return, and how much memory and how many threads it may use."""

    duration: timedelta
    answer_bytes: int
    memory_bytes: int
    threads: int


def query(
    reader: Reader,
    sql: str,
    *,
    topics: TopicRows | None = None,
    at_least: Position | None = None,
    timeout: timedelta = WAIT,
) -> Answer:
    """Runs one statement that reads. Raises as `Session.query`."""
    with Session() as session:
        return session.query(reader, sql, topics=topics, at_least=at_least, timeout=timeout)


class Session:
    """One DuckDB without access to anything outside, in which queries run one after another."""

    def __init__(self, limits: QueryLimits | None = None) -> None:
        config: dict[str, str | bool | int | float | list[str]] = {"enable_external_access": False}
        if limits is not None:
            # Without a place for temporary files, what needs more memory fails instead of filling the disk.
            config |= {"memory_limit": f"{limits.memory_bytes}B", "temp_directory": "", "threads": limits.threads}
        self._limits = limits
        self._connection = duckdb.connect(config=config)
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        # A name in SQL must never mean a variable of this program.
        self._connection.execute("SET GLOBAL python_enable_replacements = false")
        # A query must not reach outside, nor change that it cannot.
        self._connection.execute("SET lock_configuration = true")
        self.is_spent = False
        """Whether a query may have left something behind: EXPLAIN ANALYZE runs whatever it explains, and after an
        internal error, such as by text that is not UTF-8, DuckDB refuses all further queries."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def warm_up(self) -> None:
        """Loads what the first query would load."""
        with self._connection.cursor() as cursor:
            cursor.register("one", pa.table({"one": [1]}))
            cursor.sql("SELECT one FROM one").to_arrow_table()

    def query(
        self,
        reader: Reader,
        sql: str,
        *,
        topics: TopicRows | None = None,
        at_least: Position | None = None,
        timeout: timedelta = WAIT,
        rows: int | None = None,
    ) -> Answer:
        """Runs one statement that reads. An answer that has more than `rows` rows ends there and is `cut`.

        It sees views, and topics if there are any, all at one position: that of the views, or where the log is if it
        reads none. Behind a name `AT POSITION '...'` says another one. A topic has those system columns that the query
        names. Raises `InvalidQuery`, `UnknownView`, `NotYet`, `PositionGone`, `ViewPositionBetween`; with limits also
        `QueryEnded`.
        """
        # Names and variables belong to a cursor, so that no query sees those of another.
        with self._connection.cursor() as cursor, _in_time(cursor, self._limits):
            reading = Reading(reader, topics, sql)
            sql = reading.sql
            try:
                statement = _statement(cursor, sql)
                self.is_spent |= statement.type is duckdb.StatementType.EXPLAIN
                position, tables = reading.content(_names(cursor, sql), at_least, timeout)
                for name, table in tables.items():
                    cursor.register(name, table)
                relation = cursor.sql(sql)
                return self._fetched(relation if rows is None else relation.limit(rows + 1), position, rows)
            except (duckdb.Error, MemoryError) as error:
                self.is_spent |= _BROKEN.search(str(error)) is not None
                if self._limits is not None and isinstance(error, MemoryError | duckdb.OutOfMemoryException):
                    raise QueryOutOfMemory(self._limits.memory_bytes) from error
                missing = _MISSING.search(_message(error))
                raise reading.unknown(missing[1]) if missing else _wrong(sql, error) from error

    def _fetched(self, relation: duckdb.DuckDBPyRelation, position: Position, rows: int | None) -> Answer:
        if self._limits is None:
            return _answer(position, relation.to_arrow_table(), rows)
        try:
            reader = relation.to_arrow_reader(ROWS_AT_ONCE)
            batches, size = list[pa.RecordBatch](), 0
            for batch in reader:
                batches.append(batch)
                size += batch.nbytes
                if size > self._limits.answer_bytes:
                    raise QueryTooLarge(self._limits.answer_bytes)
            return _answer(position, pa.Table.from_batches(batches, reader.schema), rows)
        except MemoryError:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            # Arrow hands on what DuckDB raises as text.
            if isinstance(error, duckdb.OutOfMemoryException) or _OUT_OF_MEMORY in _message(error):
                raise QueryOutOfMemory(self._limits.memory_bytes) from error
            self.is_spent |= _BROKEN.search(str(error)) is not None
            # Places are counted in the SQL with the limit around it.
            raise InvalidQuery(None, _reason(_PLACE.sub("", _message(error)))) from error


def _answer(position: Position, table: pa.Table, rows: int | None) -> Answer:
    return (
        Answer(position, table, cut=False)
        if rows is None
        else Answer(position, table.slice(0, rows), cut=table.num_rows > rows)
    )


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


def _statement(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise InvalidQuery(None, f"It has {len(statements)} statements, where one is expected.")
    if statements[0].type not in _READS:
        raise InvalidQuery(None, f"{statements[0].type.name} does not only read: a query begins with SELECT.")
    return statements[0]


def _names(connection: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """The tables that a query names."""
    try:
        return set(connection.get_table_names(sql))
    except duckdb.BinderException:
        # It wants to know columns, such as those that * stands for, and there are no views yet.
        return set()


def _wrong(sql: str, error: Exception) -> InvalidQuery:
    message = _message(error)
    place = _PLACE.search(message)
    reason = _reason(message[: place.start()] if place else message)
    if place is None:
        return InvalidQuery(None, reason)
    number, shown, before = int(place[1]), place[2], len(place[3]) - len(f"LINE {place[1]}: ")
    line = sql.splitlines()[number - 1] if number <= len(sql.splitlines()) else ""
    start = line.find(shown.removeprefix("...").removesuffix("..."))
    column = start + before - (3 if shown.startswith("...") else 0) + 1
    return InvalidQuery(None, reason, line=number, column=max(column, 1), sql=sql)


def _message(error: Exception) -> str:
    message = str(error)
    return message if len(message) <= MESSAGE_CHARACTERS_MAX else f"{message[:MESSAGE_CHARACTERS_MAX].rstrip()} …"


def _reason(message: str) -> str:
    """What DuckDB says, as one sentence or some."""
    said = _TRACE.sub("", _KIND.sub("", message)).strip()
    reason = ". ".join(line.rstrip(".") for line in said.splitlines() if line)
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."
