"""Audit: a table and its topic compared at one place of the WAL, down to the keys that differ, which can come again.

A temporary slot gives a snapshot of the database and the place in the WAL that it shows. When the log has come to that
place, the records up to there are the topic's rows at it. Every row is read and compared by checksum.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.comparison import Comparison
from headwater.cdc.lsn import format_lsn, parse_lsn
from headwater.connectors.postgres.applying import captured_to
from headwater.connectors.postgres.copying import Copier
from headwater.connectors.postgres.incremental import KEYS_MAX, keys_job
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.setup import create_slot
from headwater.connectors.postgres.snapshot import Progress, blocks_of, chunk_query
from headwater.connectors.postgres.state import change_state
from headwater.connectors.postgres.tables import Table
from headwater.errors import UsageError
from headwater.log.embedded import EmbeddedLog

WAIT_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Audit:
    """What the comparison of a table found. Keys are as JSON shows them."""

    table: str
    topic: str
    lsn: str
    rows_in_source: int
    rows_in_log: int
    checksum_of_source: str
    checksum_of_log: str
    missing: tuple[tuple[Any, ...], ...]
    different: tuple[tuple[Any, ...], ...]
    extra: tuple[tuple[Any, ...], ...]
    repairing: bool

    @property
    def equal(self) -> bool:
        return not (self.missing or self.different or self.extra)


def audit(log: EmbeddedLog, options: CaptureOptions, table: Table, *, repair: bool, progress: Progress) -> Audit:
    """Compares one table, which has a key. With `repair`, asks for the keys that differ. Raises `UsageError`."""
    slot = create_slot(options, temporary=True)
    try:
        copier = Copier(options.address, slot.snapshot)
        try:
            _wait(log, options, slot.start)
            comparison = _comparison(log, table, slot.start)
            with options.address.connect() as connection:
                places = blocks_of(connection, table)
            for number, blocks in enumerate(places):
                for rows in copier.rows(table.relation, chunk_query(table, blocks)):
                    comparison.hold(rows)
                progress(table.name, number + 1, len(places))
        finally:
            copier.close()
    finally:
        slot.connection.finish()
    missing, different = _keys(comparison.missing, table), _keys(comparison.different, table)
    extra = _keys([comparison.extra()], table)
    wrong = [*missing, *different, *extra]
    if repair and wrong:
        _repair(log, options, table, wrong)
    return Audit(
        table.name, table.topic, format_lsn(slot.start), comparison.rows, comparison.expected.num_rows,
        f"{comparison.checksum:016x}", f"{comparison.expected_checksum:016x}", tuple(missing), tuple(different),
        tuple(extra), bool(repair and wrong),
    )  # fmt: skip


def rows_at(log: EmbeddedLog, table: Table, lsn: int) -> pa.Table:
    """The rows that a topic has after everything that ended at a place of the WAL or before."""
    names = [each.name for each in log.topic(table.topic).schema]
    records = log.scan(table.topic, columns=[*names, "_offset", "_partition", "_deleted", "_headers"])
    encoded = pc.map_lookup(records["_headers"].combine_chunks(), "lsn", "first").dictionary_encode()
    places = pa.array([parse_lsn(text.as_py()) for text in encoded.dictionary], pa.int64())
    # A record without the header was not captured, but is there: it counts.
    known = pc.fill_null(places.take(encoded.indices), 0)
    records = records.filter(pc.less_equal(known, lsn))
    order = records.sort_by([("_partition", "ascending"), ("_offset", "ascending")])
    numbered = order.append_column("_row", pa.array(range(order.num_rows), pa.int64()))
    newest = numbered.group_by(list(table.key)).aggregate([("_row", "max")])["_row_max"]
    last = order.take(newest)
    return last.filter(pc.invert(last["_deleted"])).select(names)


def _comparison(log: EmbeddedLog, table: Table, lsn: int) -> Comparison:
    expected = rows_at(log, table, lsn)
    columns = tuple(name for name in table.relation.names if name in expected.column_names)
    return Comparison(table.key, columns, expected)


def _wait(log: EmbeddedLog, options: CaptureOptions, lsn: int) -> None:
    """Returns when the log has everything up to a place; somebody has to capture meanwhile."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while captured_to(log, options) < lsn:
        if time.monotonic() > deadline:
            raise UsageError(
                f"The log is at {format_lsn(captured_to(log, options))}, and the audit at {format_lsn(lsn)}.",
                hint="Let the capture run while you audit: `headwater capture APP`.",
            )
        time.sleep(0.1)


def _keys(tables: Sequence[pa.Table], table: Table) -> list[tuple[Any, ...]]:
    return [tuple(row) for each in tables for row in zip(*(each[name].to_pylist() for name in table.key), strict=True)]


def _repair(log: EmbeddedLog, options: CaptureOptions, table: Table, keys: Sequence[tuple[Any, ...]]) -> None:
    texts = [[_text(value) for value in key] for key in keys]
    jobs = [
        keys_job(table.relation.oid, texts[first : first + KEYS_MAX]).to_json()
        for first in range(0, len(texts), KEYS_MAX)
    ]
    change_state(log, options, lambda state: {**state, "jobs": [*state.get("jobs", []), *jobs]})


def _text(value: object) -> str:
    """A key's value as PostgreSQL reads it."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)
