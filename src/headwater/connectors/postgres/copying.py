"""Reads rows of a table in bulk, as Arrow, with the same values that the stream would bring.

Types that the driver hands over exactly as they are come in binary; all others as the text that the stream has, too, so
that a row is the same whichever way it comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql.dbapi as adbc
import numpy as np
import pyarrow as pa

from headwater.cdc.headers import HEADERS, header_column
from headwater.cdc.postgres.relations import Column, Relation
from headwater.cdc.postgres.values import convert
from headwater.connectors.postgres.address import UNLIMITED, Address
from headwater.connectors.postgres.naming import literal, quoted
from headwater.connectors.postgres.occurrences import ROW
from headwater.errors import QueryFailed

READ, EMITTED = ord("r"), ord("m")
# How many bytes the driver puts into one batch.
BATCH_BYTES = 8 << 20
_BINARY = frozenset({"int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar", "bool", "bytea"})
# Their cast to text is PostgreSQL's own output; that of other types may differ from it, as those of inet and char do.
_PLAIN_TEXT = frozenset(
    {
        "int2", "int4", "int8", "float4", "float8", "text", "varchar", "numeric", "timestamp", "timestamptz", "date",
        "time", "timetz", "interval", "uuid", "json", "jsonb", "bytea",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Blocks:
    """Some blocks of a table or of a partition of it: a part of its file, from one page to before another."""

    table: str
    first: int
    end: int

    @property
    def condition(self) -> str:
        return f"ctid >= '({self.first},0)'::tid AND ctid < '({self.end},0)'::tid"


class Copier:
    """A connection for bulk reads. With a snapshot it sees the database as that shows it, until it is closed."""

    def __init__(self, address: Address, snapshot: str | None = None) -> None:
        self._address, self._snapshot = address, snapshot
        try:
            self._connection = adbc.connect(address.conninfo(), autocommit=True)
            self._execute(UNLIMITED)
            self._begin()
        except adbc_driver_manager.Error as error:
            raise address.unavailable(error) from None

    def renew(self) -> None:
        """Lets go of the locks on what was read, behind which others may wait; what is seen stays the same."""
        try:
            self._execute("ROLLBACK")
            self._begin()
        except (adbc_driver_manager.Error, OSError) as error:
            raise self._address.unavailable(error) from None

    def rows(self, relation: Relation, query: str) -> Iterator[pa.Table]:
        """The rows of a query over `selected(relation)`, with the headers that the snapshot's rows have."""
        try:
            with self._connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": BATCH_BYTES})
                cursor.execute(query)
                for batch in cursor.fetch_record_batch():
                    if batch.num_rows:
                        yield _typed(batch, relation)
        except (adbc_driver_manager.Error, OSError) as error:
            # What goes wrong while rows come has no code: whether the server is there, it says itself.
            if self._answers():
                raise QueryFailed(str(self._address), " ".join(str(error).split()).rstrip(".")) from None
            raise self._address.unavailable(error) from None

    def close(self) -> None:
        self._connection.close()

    def _begin(self) -> None:
        if self._snapshot is not None:
            self._execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._execute(f"SET TRANSACTION SNAPSHOT {literal(self._snapshot)}")

    def _answers(self) -> bool:
        try:
            self._execute("ROLLBACK")
        except (adbc_driver_manager.Error, OSError):
            return False
        return True

    def _execute(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)


def selected(relation: Relation, *, digested: bool = False) -> str:
    """The columns of a SELECT, in the order of the relation; then, if they are `digested`, the digests of the rows."""
    listed = [_expression(column) for column in relation.columns]
    return ", ".join([*listed, f"md5({row_text(relation)})"] if digested else listed)


def row_text(relation: Relation) -> str:
    """The expression in SQL for what `cdc.identity.row_texts` makes of a row."""
    parts = [
        f"coalesce({literal(quoted(column.name) + '=')} || quote_literal({text_of(column)}) || ',', '')"
        for column in relation.columns
    ]
    # Side by side, and not as arguments of a function, which takes a hundred.
    return f"({' || '.join(parts)})"


def text_of(column: Column) -> str:
    """The expression in SQL for a column's value as the stream writes it."""
    name = quoted(column.name)
    if column.type in _PLAIN_TEXT:
        return f"{name}::text"
    if column.type == "bool":
        return f"CASE WHEN {name} THEN 't' WHEN NOT {name} THEN 'f' END"
    # A row type whose fields are all null IS NULL, and is not.
    return f"CASE WHEN {name} IS DISTINCT FROM NULL THEN format('%s', {name}) END"


def with_headers(
    rows: pa.Table, headers: Mapping[str, str], specials: Sequence[tuple[int, str, str]] = (), *, operation: int = READ
) -> pa.Table:
    """Rows that were read, and not changed, with their headers."""
    count = rows.num_rows
    column = header_column([headers], np.zeros(count, np.int64), np.full(count, operation, np.uint8), specials)
    return rows.append_column(HEADERS, column)


def _expression(column: Column) -> str:
    return quoted(column.name) if column.type in _BINARY else text_of(column)


def _typed(batch: pa.RecordBatch, relation: Relation) -> pa.Table:
    columns: list[pa.Array] = []
    specials: list[tuple[int, str, str]] = []
    for column, values in zip(relation.columns, batch.columns[: len(relation.columns)], strict=True):
        given: Any = values.storage if isinstance(values, pa.ExtensionArray) else values
        if given.type == column.arrow:
            columns.append(given)
            continue
        converted, refused = convert(given.cast(pa.string()), column.arrow)
        columns.append(converted)
        specials += [(row, column.name, text) for row, text in refused.items()]
    rows = pa.Table.from_arrays(columns, schema=relation.arrow)
    if batch.num_columns > len(relation.columns):
        rows = rows.append_column(ROW, batch.columns[-1].cast(ROW.type))
    return with_headers(rows, {}, specials) if specials else rows
