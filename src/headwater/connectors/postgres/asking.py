"""Asks a database for values of rows that neither the stream nor the log has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from psycopg import sql

from headwater.connectors.postgres.address import Address
from headwater.connectors.postgres.copying import Copier, selected
from headwater.connectors.postgres.inventory import Connection, table_of
from headwater.connectors.postgres.naming import quoted
from headwater.connectors.postgres.tables import Table
from headwater.connectors.postgres.unchanged import Key, Values, values_of

# How many rows one query names at most.
KEYS_MAX = 1000


def ask(
    connection: Connection, address: Address, table: Table, keys: Sequence[Key], columns: Sequence[str]
) -> Mapping[Key, Values]:
    """Values of rows as they are in the database now.

    The stream may be far behind: a table that was dropped since has no values, nor has a column that was dropped,
    renamed or given another type. What comes of that, the stream will tell.
    """
    found = table_of(connection, table.relation.oid)
    there = set(found.relation.columns) if found is not None else set()
    known = {column.name: column for column in table.relation.columns}
    asked = [name for name in columns if known[name] in there]
    if found is None or not asked or any(known[name] not in there for name in table.key):
        return {}
    part = replace(table.relation, columns=tuple(known[name] for name in dict.fromkeys([*table.key, *asked])))
    listed = ", ".join(quoted(name) for name in table.key)
    values: dict[Key, Values] = {}
    copier = Copier(address)
    try:
        for first in range(0, len(keys), KEYS_MAX):
            rows = sql.SQL(", ").join(
                sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, key)))
                for key in keys[first : first + KEYS_MAX]
            )
            query = f"SELECT {selected(part)} FROM {found.source} WHERE ({listed}) IN ({rows.as_string(connection)})"
            for batch in copier.rows(part, query):
                for row in batch.to_pylist():
                    values[tuple(row[name] for name in table.key)] = values_of(row, asked)
    finally:
        copier.close()
    return values
