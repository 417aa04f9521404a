"""Parcels: rows of edges on their way from one Python stage to another, as bytes that Spark hands on unopened.

Rows are addressed when they leave their producer: they get the hash of their key, and some are added up.
The rows of an edge that one task gets from another are a parcel, or several if they are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.spark.slots import NOTES, PACKED, PARCELS, ROUTE, TASK
from headwater.views.due_order import bucket_hashes
from headwater.views.identity import validity
from headwater.views.kernel import Summation
from headwater.views.placing import hashes_of_keys, repeats, tasks_of
from headwater.views.zset import HASH, WEIGHT, rows_at

PARCEL_BYTES = 256 << 10
"""About so large is a parcel, unless it is for one row."""
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Route:
    """An edge as a worker needs it.

    `columns` are those that it brings, `schema` those of its rows once they are addressed. `places` are its columns
    among the producer's, and `present` those that must not be null; None if Spark computes them into `slots`.
    """

    number: int
    columns: pa.Schema
    schema: pa.Schema
    key: tuple[str, ...]
    summation: Summation | None
    places: tuple[int, ...] | None = None
    present: tuple[int, ...] = ()
    slots: tuple[str, ...] = ()
    in_buckets: bool = False
    """Whether rows go to tasks by the bucket of their hash."""

    def chosen(self, rows: pa.Table) -> pa.Table:
        """The rows of a producer as this edge brings them: its columns and the weight."""
        assert self.places is not None
        missing = [place for place in self.present if rows.column(place).null_count]
        if missing:
            present = np.logical_and.reduce([validity(rows.column(place)) for place in missing])
            rows = rows.filter(pa.array(present))
        return self._brought([rows.column(place) for place in self.places], rows)

    def projected(self, rows: pa.Table) -> pa.Table:
        """The rows that Spark has computed for this edge, as it brings them."""
        return self._brought([rows[slot] for slot in self.slots], rows)

    def addressed(self, rows: pa.Table) -> pa.Table:
        """What it brings, added up if that is how they travel, with the hashes of keys."""
        hashes = hashes_of_keys(rows, self.key)
        if self.summation is not None:
            apart = not repeats(hashes)
            rows = self.summation.summed(rows, apart=apart)
            hashes = hashes if apart else hashes_of_keys(rows, self.key)
        placed = bucket_hashes(hashes) if self.in_buckets else hashes
        return pa.table([pa.array(placed), *rows.columns], schema=self.schema)

    def _brought(self, columns: Sequence[pa.ChunkedArray], rows: pa.Table) -> pa.Table:
        cast = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, self.columns, strict=True)
        ]
        weights = rows[WEIGHT] if WEIGHT in rows.column_names else pa.array(np.ones(rows.num_rows, dtype=np.int64))
        return pa.table([*cast, weights], names=[*self.columns.names, WEIGHT])


@dataclass(slots=True)
class Mail:
    """The addressed rows of edges that have not reached their operator yet."""

    _tables: dict[int, list[pa.Table]] = field(default_factory=dict)

    def add(self, edge: int, rows: pa.Table) -> None:
        if rows.num_rows:
            self._tables.setdefault(edge, []).append(rows)

    def take(self, route: Route) -> pa.Table:
        """All rows of an edge, which are gone then."""
        tables = self._tables.pop(route.number, [])
        return pa.concat_tables(tables) if tables else route.schema.empty_table()

    def packed(self, tasks: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Everything, as rows for Spark, a parcel each."""
        for edge, tables in self._tables.items():
            for task, rows in _shared(pa.concat_tables(tables), tasks):
                for parcel in _parcels(rows):
                    yield _row(schema, PARCELS + edge, task, parcel)
        self._tables.clear()


def note(schema: pa.Schema, text: str) -> pa.RecordBatch:
    """A note for the driver, as a row for Spark."""
    content = text.encode()
    # What stands beside it are parcels, whose numbers should lie where numbers may.
    return _row(schema, NOTES, 0, content + b" " * (-len(content) % _ALIGNMENT))


def unpacked(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in parcels of one edge."""
    parcels = (value.as_buffer() for chunk in rows[PACKED].chunks for value in chunk)
    return pa.Table.from_batches([pa.ipc.read_record_batch(parcel, schema) for parcel in parcels])


def _shared(rows: pa.Table, tasks: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each task that owns some."""
    if tasks == 1:
        yield 0, rows
        return
    owners = tasks_of(rows[HASH].to_numpy(), tasks)
    counts = np.bincount(owners, minlength=tasks)
    # Few different numbers are sorted in no time.
    order = np.argsort(owners.astype(np.uint16), kind="stable")
    ordered = rows_at(rows, order)
    start = 0
    for task, count in enumerate(counts.tolist()):
        if count:
            yield task, ordered.slice(start, count)
        start += count


def _parcels(rows: pa.Table) -> Iterator[pa.Buffer]:
    size = max(1, PARCEL_BYTES * rows.num_rows // max(1, rows.nbytes))
    for batch in rows.combine_chunks().to_batches(size):
        yield batch.serialize()


def _row(schema: pa.Schema, route: int, task: int, content: pa.Buffer | bytes) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.array([0, len(content)], dtype=np.int32))
    buffer = content if isinstance(content, pa.Buffer) else pa.py_buffer(content)
    placed = {
        ROUTE: pa.array([route], pa.int32()),
        TASK: pa.array([task], pa.int32()),
        PACKED: pa.Array.from_buffers(pa.binary(), 1, [None, offsets, buffer]),
    }
    columns = [placed[field.name] if field.name in placed else pa.nulls(1, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
