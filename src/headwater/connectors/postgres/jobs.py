"""Jobs: tables, or parts of them, that are to be read while changes flow. They wait in a bookmark, as JSON."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.cdc.postgres.values import convert
from headwater.connectors.postgres import snapshot
from headwater.connectors.postgres.copying import Blocks, selected
from headwater.connectors.postgres.inventory import Connection
from headwater.connectors.postgres.naming import literal, quoted
from headwater.connectors.postgres.snapshot import parts_of
from headwater.connectors.postgres.tables import Table

# How many keys one job names at most.
KEYS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Job:
    """A table to read. `blocks` is what is left of it; None: all, not yet planned. `where` takes only some rows.

    With `purge`, rows of the log that are not in the table any more are deleted at the end. `keys`, as texts, are read
    by themselves, and deleted where the table does not have them.
    """

    id: str
    oid: int
    where: str | None = None
    purge: bool = False
    blocks: tuple[Blocks, ...] | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    layout: dict[str, list[Any]] | None = None

    def to_json(self) -> dict[str, Any]:
        blocks = None if self.blocks is None else [[each.table, each.first, each.end] for each in self.blocks]
        return {
            "id": self.id,
            "oid": self.oid,
            "where": self.where,
            "purge": self.purge,
            "blocks": blocks,
            "keys": [list(key) for key in self.keys],
            "layout": self.layout,
        }

    @property
    def is_whole(self) -> bool:
        """Whether it reads all of its table, and nothing of it is in the log yet."""
        return self.where is None and not self.keys and self.blocks is None

    def next_blocks(self) -> Blocks | None:
        """The next chunk of what is left."""
        if not self.blocks:
            return None
        first = self.blocks[0]
        return replace(first, end=min(first.end, first.first + snapshot.CHUNK_BLOCKS))

    def left_after(self, done: Blocks | None) -> tuple[Blocks, ...]:
        """What is left when a chunk is done."""
        if done is None or not self.blocks:
            return ()
        rest = replace(self.blocks[0], first=done.end)
        return (*((rest,) if rest.first < rest.end else ()), *self.blocks[1:])

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Job:
        blocks = None if value["blocks"] is None else tuple(Blocks(*each) for each in value["blocks"])
        keys = tuple(tuple(key) for key in value.get("keys", ()))
        return cls(value["id"], value["oid"], value["where"], value["purge"], blocks, keys, value.get("layout"))


def new_job(oid: int, *, where: str | None = None, purge: bool = False) -> Job:
    """A job for a whole table, or for the rows that a condition names."""
    return Job(uuid.uuid4().hex[:12], oid, where, purge)


def leaf_job(connection: Connection, table: Table, leaves: Sequence[int], layout: dict[str, list[Any]]) -> Job:
    """A job for some partitions of a table."""
    blocks = tuple(parts_of(connection, table, leaves))
    return Job(uuid.uuid4().hex[:12], table.relation.oid, blocks=blocks, layout=layout)


def keys_job(oid: int, keys: Sequence[Sequence[str]]) -> Job:
    """A job for some keys of a table."""
    return Job(uuid.uuid4().hex[:12], oid, keys=tuple(tuple(key) for key in keys))


def keys_query(job: Job, table: Table, source: str) -> str:
    """The rows of a job's keys. PostgreSQL takes a literal for whatever type its column has."""
    listed = ", ".join(quoted(name) for name in table.key)
    keys = ", ".join(f"({', '.join(literal(text) for text in key)})" for key in job.keys)
    return f"SELECT {selected(table.relation)} FROM {source} WHERE ({listed}) IN ({keys})"


def typed_keys(job: Job, table: Table) -> pa.Table:
    """The keys of a job as its table's topic has them."""
    types = {column.name: column.arrow for column in table.relation.columns}
    columns = [
        convert(pa.array([key[number] for key in job.keys], pa.string()), types[name])[0]
        for number, name in enumerate(table.key)
    ]
    return pa.table(columns, names=list(table.key))
