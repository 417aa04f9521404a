"""What a database has: its tables, their columns, keys and replica identities, as its catalog says now."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from headwater.cdc.postgres.relations import WHOLE_ROW, Column, Relation, qualified_type
from headwater.connectors.postgres.naming import DEFAULT_SCHEMA, qualified

Connection = psycopg.Connection[Any]

_TABLES = """
SELECT c.oid::int8, n.nspname, c.relname, c.relreplident, c.relkind, c.relispartition,
       (SELECT array_agg(a.attname::text ORDER BY k.ord)
        FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, ord)
        JOIN pg_attribute a ON a.attnum = k.attnum AND a.attrelid = c.oid
        WHERE i.indrelid = c.oid AND i.indisprimary AND k.ord <= i.indnkeyatts
          AND (i.indimmediate OR c.relreplident = 'f')) AS primary_key,
       (SELECT array_agg(a.attname::text ORDER BY k.ord)
        FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, ord)
        JOIN pg_attribute a ON a.attnum = k.attnum AND a.attrelid = c.oid
        WHERE i.indrelid = c.oid AND i.indisreplident AND k.ord <= i.indnkeyatts) AS identity_index,
       has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE') AS readable,
       pg_get_userbyid(c.relowner), c.relpersistence, pg_has_role(c.relowner, 'USAGE') AS owned,
       CASE WHEN c.relkind = 'p' AND NOT c.relispartition THEN
           (SELECT array_agg(t.relid::oid::int8 ORDER BY t.relid::oid) FROM pg_partition_tree(c.oid) t WHERE t.isleaf
            AND t.relid <> c.oid) END AS parts,
       CASE WHEN c.relkind = 'p' AND NOT c.relispartition THEN
           (SELECT array_agg(pg_relation_filenode(t.relid)::int8 ORDER BY t.relid::oid) FROM pg_partition_tree(c.oid) t
            WHERE t.isleaf AND t.relid <> c.oid) END AS files,
       CASE WHEN c.relkind = 'p' AND NOT c.relispartition THEN
           (SELECT array_agg(t.relid::text ORDER BY t.relid::text) FROM pg_partition_tree(c.oid) t
            JOIN pg_class l ON l.oid = t.relid WHERE t.isleaf AND l.relreplident <> 'f') END AS not_whole
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg\\_%%' AND (%(oid)s::oid IS NULL OR c.oid = %(oid)s::oid)
ORDER BY n.nspname, c.relname
"""
_COLUMNS = """
WITH RECURSIVE base(oid, type) AS (
    SELECT DISTINCT a.atttypid, a.atttypid FROM pg_attribute a
    WHERE a.attrelid = ANY(%(oids)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
    SELECT b.oid, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
)
SELECT a.attrelid::int8, a.attname, n.nspname, t.typname, a.atttypmod
FROM pg_attribute a
JOIN base b ON b.oid = a.atttypid
JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd'
JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE a.attrelid = ANY(%(oids)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attrelid, a.attnum
"""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the database. `key` is how the stream names its rows; without one it can only be appended to.

    A primary key that is checked only at the end of a transaction (`DEFERRABLE`) names none.
    """

    relation: Relation
    primary_key: tuple[str, ...]
    identity_index: tuple[str, ...]
    readable: bool
    owned: bool
    owner: str
    unlogged: bool
    partition: bool
    partitioned: bool
    parts: tuple[int, ...] = ()
    """The numbers of its partitions that have rows of their own."""
    files: tuple[int | None, ...] = ()
    """The files of these: who empties or rewrites a partition gives it another, and the stream says nothing."""
    not_whole: tuple[str, ...] = ()
    """Those of them whose changes come without the whole old row."""

    @property
    def name(self) -> str:
        return self.relation.name

    @property
    def source(self) -> str:
        """All its rows, in SQL: those of its partitions, and not those of tables that inherit from it."""
        name = qualified(self.relation.schema, self.relation.table)
        return name if self.partitioned else f"ONLY {name}"

    @property
    def key(self) -> tuple[str, ...]:
        if self.relation.identity == "i":
            return self.identity_index
        return () if self.relation.identity == "n" else self.primary_key

    @property
    def counted(self) -> bool:
        """Whether its rows are identified by all their values."""
        return not self.key and self.relation.identity == WHOLE_ROW


def table_of(connection: Connection, oid: int) -> SourceTable | None:
    """A table by its number; None if it is not there any more."""
    return next(iter(tables_of(connection, oid)), None)


def tables_of(connection: Connection, only: int | None = None) -> list[SourceTable]:
    """All tables of users, partitioned ones and partitions among them; or one of them."""
    rows = connection.execute(_TABLES, {"oid": only}).fetchall()
    columns: dict[int, list[Column]] = {}
    for oid, name, schema, kind, modifier in connection.execute(_COLUMNS, {"oids": [row[0] for row in rows]}):
        columns.setdefault(oid, []).append(Column(name, qualified_type(schema, kind), modifier))
    found: list[SourceTable] = []
    for row in rows:
        oid, schema, table, identity, kind, partition, primary, index, readable, owner, persistence, owned, *more = row
        relation = Relation(oid, schema, table, identity, tuple(columns.get(oid, ())))
        parts, files, not_whole = (tuple(each or ()) for each in more)
        found.append(
            SourceTable(
                relation, tuple(primary or ()), tuple(index or ()), readable, owned, owner, persistence != "p",
                partition, kind == "p", parts, files, not_whole,
            )
        )  # fmt: skip
    return found


def chosen(tables: Sequence[SourceTable], patterns: Sequence[str], schemas: Sequence[str]) -> list[SourceTable]:
    """The tables that one of the patterns names (`orders`, `billing.*`, `*`) or that lie in one of the schemas.

    A partition is captured as a part of its table, and not by itself.
    """
    wanted: list[SourceTable] = []
    for each in tables:
        relation = each.relation
        if each.partition:
            continue
        if is_chosen(relation.schema, relation.table, patterns, schemas):
            wanted.append(each)
    return wanted


def is_chosen(schema: str, table: str, patterns: Sequence[str], schemas: Sequence[str]) -> bool:
    """Whether a table of this name is to be captured."""
    return schema in schemas or any(matches(pattern, schema, table) for pattern in patterns)


def matches(pattern: str, schema: str, table: str) -> bool:
    """Whether a pattern names a table; without a schema it speaks of the default one."""
    chosen_schema, dot, chosen_table = pattern.rpartition(".")
    return fnmatch.fnmatchcase(schema, chosen_schema if dot else DEFAULT_SCHEMA) and fnmatch.fnmatchcase(
        table, chosen_table
    )
