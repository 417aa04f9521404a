"""Tables as the stream describes them: their columns and types, before the first change that uses them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headwater.cdc.postgres.types import BUILT_IN, arrow_type

CATALOG_SCHEMA = "pg_catalog"
# The replica identity of a table whose changes come with the whole old row.
WHOLE_ROW = "f"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its type is a built-in type's name, or another type's with its schema. Domains are their base type."""

    name: str
    type: str
    modifier: int = -1

    @property
    def arrow(self) -> pa.DataType:
        return arrow_type(self.type, self.modifier)


@dataclass(frozen=True, slots=True)
class Relation:
    """A table at some place of the stream. `identity` is how it names the row that a change replaces.

    `identity`: `d` by primary key, `i` by an index, `f` by the whole row, `n` not at all.
    """

    oid: int
    schema: str
    table: str
    identity: str
    columns: tuple[Column, ...]
    identified_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def arrow(self) -> pa.Schema:
        """The columns as a topic has them: all nullable, as the stream does not say which are not."""
        return pa.schema([(column.name, column.arrow) for column in self.columns])


def read_type(body: bytes) -> tuple[int, str]:
    """The number and the name of a type that is not built in; of a domain, that of its base type."""
    (oid,) = struct.unpack_from(">I", body)
    schema, name, _ = body[4:].split(b"\0", 2)
    return oid, qualified_type(schema.decode(), name.decode())


def qualified_type(schema: str, name: str) -> str:
    """A built-in type by its name; an array of any other type as one of texts; any other type with its schema."""
    if schema in (CATALOG_SCHEMA, ""):
        return name
    return "_text" if name.startswith("_") else f"{schema}.{name}"


def read_relation(body: bytes, types: Mapping[int, str]) -> Relation:
    """A table from a message of the kind 'R'; `types` has the names of types that are not built in."""
    (oid,) = struct.unpack_from(">I", body)
    schema, table, rest = body[4:].split(b"\0", 2)
    identity = chr(rest[0])
    (count,) = struct.unpack_from(">H", rest, 1)
    at = 3
    columns: list[Column] = []
    keys: list[str] = []
    for _ in range(count):
        flags = rest[at]
        end = rest.index(b"\0", at + 1)
        name = rest[at + 1 : end].decode()
        kind, modifier = struct.unpack_from(">Ii", rest, end + 1)
        at = end + 9
        columns.append(Column(name, BUILT_IN.get(kind) or types.get(kind, f"type {kind}"), modifier))
        if flags & 1:
            keys.append(name)
    # An empty schema name stands for the catalog's.
    return Relation(oid, schema.decode() or CATALOG_SCHEMA, table.decode(), identity, tuple(columns), tuple(keys))
