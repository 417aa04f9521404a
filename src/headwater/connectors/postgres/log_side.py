"""What a topic has at a place of the WAL: of each row that counts there, its key and the digest of its content."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.digests import DIGEST, Digests, digests
from headwater.cdc.headers import HEADERS, SPECIAL
from headwater.cdc.postgres.identity import row_texts
from headwater.cdc.postgres.lsn import Lsn
from headwater.cdc.postgres.relations import Relation
from headwater.cdc.postgres.texts import to_texts
from headwater.connectors.postgres.occurrences import ROW
from headwater.connectors.postgres.tables import Table
from headwater.errors import PositionGone
from headwater.log.port import Log
from headwater.log.reading import Batch
from headwater.model.hashing import hash_columns
from headwater.model.position import Position

_PLACE = ["_offset", "_deleted", "_headers"]


@dataclass(frozen=True, slots=True)
class LogSide:
    """The rows of a topic: `keys` are the values of its key, `digests` those of the rows."""

    keys: pa.Table
    digests: Digests


def rows_at(log: Log, table: Table, lsn: Lsn) -> LogSide:
    """The rows that a topic has after everything that ended at a place of the WAL or before.

    Reads the topic twice and keeps keys and digests only: first to find the newest record of each key, then its row.
    Raises `PositionGone` if compaction may have removed some of them for newer ones.
    """
    newest, later = _newest(log, table, lsn)
    names = [name for name in table.relation.names if name in log.topic(table.topic).schema.names]
    wanted = list(dict.fromkeys([*table.topic_key, *([] if table.counted else names), *_PLACE]))
    keys, found = [_empty(log, table)], [np.empty(0, DIGEST)]
    for batch in log.batches(table.topic, columns=wanted):
        offsets = batch.records["_offset"].to_numpy()
        chosen = np.isin(offsets, newest.get(batch.partition, np.empty(0, np.int64)))
        if not chosen.any():
            continue
        rows = batch.records.filter(pa.array(chosen)).combine_chunks()
        keys.append(rows.select(list(table.topic_key)))
        found.append(_content(rows, table))
    compacted = log.compacted([table.topic])
    if any(position <= compacted for position in later):
        raise PositionGone(table.topic, str(lsn), str(compacted), "compaction")
    return LogSide(pa.concat_tables(keys).combine_chunks(), np.concatenate(found))


def _empty(log: Log, table: Table) -> pa.Table:
    schema = log.topic(table.topic).schema
    return pa.schema([schema.field(name).with_nullable(True) for name in table.topic_key]).empty_table()


def _newest(log: Log, table: Table, lsn: Lsn) -> tuple[dict[int, npt.NDArray[np.int64]], Sequence[Position]]:
    """The offsets, by partition, of the newest record of each key that has a row at the place.

    Also the position of the first record of each partition that came after the place.
    """
    later: dict[int, Position] = {}
    found: dict[int, npt.NDArray[np.int64]] = {}
    seen: dict[int, list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]]] = {}
    for batch in log.batches(table.topic, columns=[*table.topic_key, *_PLACE, "_partition", "_commit"]):
        counts = _until(batch, lsn)
        if batch.partition not in later and not counts.all():
            later[batch.partition] = log.positions(batch.records.slice(int(np.argmin(counts)), 1))[0]
        rows = batch.records.filter(pa.array(counts))
        hashed = np.asarray(hash_columns([rows[name] for name in table.topic_key]), np.uint64)
        deleted = rows["_deleted"].to_numpy(zero_copy_only=False)
        seen.setdefault(batch.partition, []).append((hashed, rows["_offset"].to_numpy(), deleted))
    for partition, parts in seen.items():
        hashed, offsets, deleted = (np.concatenate(each) for each in zip(*parts, strict=True))
        # The last of equal hashes is the newest.
        order = np.argsort(hashed, kind="stable")
        last = np.append(hashed[order][1:] != hashed[order][:-1], True)[: len(order)]
        chosen = order[last]
        found[partition] = offsets[chosen[~deleted[chosen].astype(np.bool_)]]
    return found, list(later.values())


def _until(batch: Batch, lsn: Lsn) -> npt.NDArray[np.bool_]:
    encoded = pc.map_lookup(batch.records["_headers"].combine_chunks(), "lsn", "first").dictionary_encode()
    places = pa.array([Lsn.parse(text.as_py()) for text in encoded.dictionary], pa.int64())
    # A record without the header was not captured, but is there: it counts.
    known = pc.fill_null(places.take(encoded.indices), 0)
    return np.asarray(known.to_numpy(zero_copy_only=False) <= lsn)


def _content(rows: pa.Table, table: Table) -> Digests:
    if table.counted:
        return np.array(pc.utf8_slice_codeunits(rows[ROW.name], 0, DIGEST.itemsize).to_pylist(), DIGEST)
    return digests(row_texts(table.relation.names, list(_texts(rows, table.relation))))


def _texts(rows: pa.Table, relation: Relation) -> Iterator[pa.Array]:
    """Each column as PostgreSQL writes it; what the column cannot hold is in the headers."""
    specials = _specials(rows)
    for column in relation.columns:
        if column.name not in rows.column_names:
            yield pa.nulls(rows.num_rows, pa.string())
            continue
        texts = to_texts(_array(rows[column.name]), column.arrow)
        own = [(row, values[column.name]) for row, values in specials if column.name in values]
        if own:
            written = texts.to_pylist()
            for row, text in own:
                written[row] = text
            texts = pa.array(written, pa.string())
        yield texts


def _specials(rows: pa.Table) -> Sequence[tuple[int, dict[str, str]]]:
    texts = pc.map_lookup(_array(rows[HEADERS.name]), SPECIAL, "first")
    return [(int(row), json.loads(texts[int(row)].as_py())) for row in np.flatnonzero(texts.is_valid())]


def _array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
