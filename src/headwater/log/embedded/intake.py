"""From what a caller appends to what is written: checked against the schema and divided among the partitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidRecords, RejectedRecord, UsageError
from headwater.log.arguments import is_whole
from headwater.log.commit import Numbers, Piece
from headwater.log.embedded.registry import Registry
from headwater.log.embedded.sealed import PARTITION
from headwater.log.embedded.segment import DELETED, HEADERS
from headwater.log.port import Rows
from headwater.log.topic import DEAD_LETTER_SCHEMA, Topic
from headwater.model.hashing import hash_columns, partition_of
from headwater.model.rows import parse_json_lines, to_arrow

# Without a key, an append is spread over the partitions in runs of at least this many records.
SPREAD_ROWS_MIN = 1000


# To which commit a record belongs, while records are divided.
_NUMBER = pa.field("_number", pa.int64())


class Intake:
    """Turns rows into pieces. Raises `UnknownTopic`, `InvalidRecords`, `UsageError`; writes nothing.

    `turn` says with which partition records without a key begin.
    """

    def __init__(self, registry: Registry, turn: int) -> None:
        self._registry = registry
        self._turn = itertools.count(turn)

    def prepare(
        self,
        topic: str,
        rows: Rows,
        *,
        partition: int | None = None,
        headers: Mapping[str, str] | None = None,
        delete: bool = False,
        numbers: Numbers | None = None,
    ) -> list[Piece]:
        """The records per partition, and those that do not fit for the dead-letter topic, if there is one.

        `numbers` say to which of several commits each record belongs, and are divided as the records are.
        """
        found = self._registry.topic(topic)
        rows = as_rows(rows)
        records, rejected = _tombstones(found, rows) if delete else _records(found, rows)
        if numbers is not None and records.num_rows == len(numbers):
            records = records.append_column(_NUMBER, pa.array(numbers))
        pieces = self._divide(found, _with_headers(records, headers), partition) if records.num_rows else []
        pieces = [_numbered(piece) for piece in pieces] if numbers is not None else pieces
        if rejected:
            pieces.append(self._dead_letters(found, rejected))
        return pieces

    def _divide(self, topic: Topic, records: pa.Table, partition: int | None) -> list[Piece]:
        if PARTITION.name in records.column_names:
            if records[PARTITION.name].null_count:
                raise UsageError("A record has no _partition, but others have one.", hint="Give it to all or to none.")
            chosen = records[PARTITION.name].to_numpy()
            records = records.drop_columns([PARTITION.name])
            _check_partition(topic, int(chosen.min()))
            _check_partition(topic, int(chosen.max()))
            return _by_partition(topic, records, chosen)
        if partition is not None:
            _check_partition(topic, partition)
            return [Piece(topic, partition, records)]
        if topic.partitions == 1:
            return [Piece(topic, 0, records)]
        if topic.division:
            hashes = hash_columns([records[column] for column in topic.division])
            return _by_partition(topic, records, partition_of(hashes, topic.partitions))
        return self._spread(topic, records)

    def _spread(self, topic: Topic, records: pa.Table) -> list[Piece]:
        runs = max(1, min(topic.partitions, records.num_rows // SPREAD_ROWS_MIN))
        bounds = [records.num_rows * i // runs for i in range(runs + 1)]
        return [
            Piece(topic, next(self._turn) % topic.partitions, records.slice(first, end - first))
            for first, end in itertools.pairwise(bounds)
        ]

    def _dead_letters(self, topic: Topic, rejected: Sequence[RejectedRecord]) -> Piece:
        if topic.settings.dead_letter is None:
            raise InvalidRecords(topic.name, rejected)
        columns = [
            [topic.name] * len(rejected),
            [letter.reason for letter in rejected],
            [letter.field for letter in rejected],
            [letter.expected for letter in rejected],
            [letter.got for letter in rejected],
            [letter.original for letter in rejected],
        ]
        schema = pa.schema([field.with_nullable(True) for field in DEAD_LETTER_SCHEMA])
        dead_letter = self._registry.topic(topic.settings.dead_letter)
        return Piece(dead_letter, 0, pa.table(columns, schema=schema), dead=True, rejected=tuple(rejected))


def as_rows(rows: object) -> Rows:
    """What a caller gave, as something with a length: iterables as lists, data frames and readers as Arrow."""
    if isinstance(rows, (bytes, list, tuple, pa.Table, pa.RecordBatch)):
        return rows
    if isinstance(rows, str) or hasattr(rows, "read"):
        raise UsageError(
            "JSON lines are appended as bytes.", hint="Use text.encode(), or the content of a file opened with 'rb'."
        )
    if isinstance(rows, Mapping):
        raise UsageError("Rows must be a list, but this is a single row.", hint="Write [row] instead of row.")
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, Iterable):
        return list(rows)
    raise UsageError(f"Rows are a list of dicts, an Arrow table or bytes of JSON lines, not a {type(rows).__name__}.")


def _records(topic: Topic, rows: Rows) -> tuple[pa.Table, list[RejectedRecord]]:
    if isinstance(rows, bytes):
        records, rejected = parse_json_lines(rows, topic.schema, key=topic.key)
    else:
        records, rejected = to_arrow(rows, topic.schema, key=topic.key)
    if DELETED.name in records.column_names and pc.any(records[DELETED.name]).as_py():
        _check_key(topic)
    return records, rejected


def _check_key(topic: Topic) -> None:
    if not topic.key:
        raise UsageError(
            f"Topic {topic.name!r} has no key: nothing in it can be deleted.", hint="Create it with a key."
        )


def _tombstones(topic: Topic, rows: Rows) -> tuple[pa.Table, list[RejectedRecord]]:
    _check_key(topic)
    keys = pa.schema([topic.schema.field(column) for column in topic.key])
    if isinstance(rows, bytes):
        records, rejected = parse_json_lines(rows, keys, key=topic.key)
    else:
        records, rejected = to_arrow(rows, keys, key=topic.key)
    columns = {
        field.name: records[field.name] if field.name in topic.key else pa.nulls(records.num_rows, field.type)
        for field in topic.schema
    }
    columns[DELETED.name] = pa.repeat(pa.scalar(True), records.num_rows)
    for name in (HEADERS.name, PARTITION.name):
        if name in records.column_names:
            columns[name] = records[name]
    return pa.table(columns), rejected


def _with_headers(records: pa.Table, headers: Mapping[str, str] | None) -> pa.Table:
    if not headers or not records.num_rows:
        return records
    if HEADERS.name in records.column_names:
        merged = [{**headers, **dict(own or ())} for own in records[HEADERS.name].to_pylist()]
        column = pa.array([list(row.items()) for row in merged], HEADERS.type)
        return records.set_column(records.column_names.index(HEADERS.name), HEADERS, column)
    rows, size = records.num_rows, len(headers)
    names = pa.array(list(headers) * rows, pa.string())
    values = pa.array(list(headers.values()) * rows, pa.string())
    offsets = pa.array(np.arange(0, rows * size + 1, size, dtype=np.int32))
    return records.append_column(HEADERS, pa.MapArray.from_arrays(offsets, names, values))


def _by_partition(topic: Topic, records: pa.Table, chosen: np.ndarray) -> list[Piece]:
    """One piece per partition, each in the records' own order."""
    order = np.argsort(chosen, kind="stable")
    bounds = np.searchsorted(chosen[order], np.arange(topic.partitions + 1))
    sorted_records = records.take(pa.array(order))
    return [
        Piece(topic, partition, sorted_records.slice(int(first), int(end - first)))
        for partition, (first, end) in enumerate(itertools.pairwise(bounds))
        if end > first
    ]


def _numbered(piece: Piece) -> Piece:
    if _NUMBER.name not in piece.records.column_names:
        return piece
    numbers = piece.records[_NUMBER.name].to_numpy()
    return replace(piece, records=piece.records.drop_columns([_NUMBER.name]), numbers=numbers)


def _check_partition(topic: Topic, partition: int) -> None:
    if not is_whole(partition, 0) or partition >= topic.partitions:
        raise UsageError(f"Topic {topic.name!r} has partitions 0 to {topic.partitions - 1}, not {partition!r}.")
