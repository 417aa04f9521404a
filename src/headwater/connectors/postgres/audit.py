"""Audit: tables and their topics compared at one place of the WAL, down to the keys that differ, which can come again.

A temporary slot gives a snapshot of the database and the place in the WAL that it shows. When the log has come to that
place, the records up to there are the topic's rows at it. The server sums up digests over ranges of keys; where sum and
count are those of the topic, nothing more is asked of it. Of other ranges it sends keys and digests.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa

from headwater.cdc.comparison import Differences, Key, Sums, differences, differing, sums_of
from headwater.cdc.postgres.lsn import Lsn
from headwater.cdc.postgres.texts import to_texts
from headwater.cdc.postgres.values import convert
from headwater.connectors.postgres.applying import captured_to
from headwater.connectors.postgres.copying import row_text, text_of
from headwater.connectors.postgres.inventory import Connection, SourceTable, table_of
from headwater.connectors.postgres.jobs import KEYS_MAX, keys_job, new_job
from headwater.connectors.postgres.log_side import LogSide, rows_at
from headwater.connectors.postgres.naming import literal
from headwater.connectors.postgres.occurrences import ROW
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.ranges import Division, divided
from headwater.connectors.postgres.setup import NewSlot, create_slot
from headwater.connectors.postgres.snapshot import Progress, blocks_of
from headwater.connectors.postgres.tables import Table
from headwater.engine.sources import TableAudit
from headwater.errors import PositionGone, UsageError
from headwater.log.port import Log

WAIT_SECONDS_MAX = 60.0
TRIES_MAX = 5
# More keys than these, or longer ones, do not wait in a bookmark: the whole table is read instead.
REPAIR_KEYS_MAX = 5000
REPAIR_BYTES_MAX = 256 << 10


def audit(
    log: Log, options: CaptureOptions, tables: Sequence[Table], *, repair: bool, progress: Progress
) -> list[TableAudit]:
    """Compares tables, all at one place. With `repair`, asks for the keys that differ. Raises `UsageError`."""
    for _ in range(TRIES_MAX - 1):
        # Compaction has removed rows as they were at that place: there is a newer one.
        with suppress(PositionGone):
            compared = _all_audited(log, options, tables, progress)
            break
    else:
        compared = _all_audited(log, options, tables, progress)
    found: list[TableAudit] = []
    for table, (result, wrong) in zip(tables, compared, strict=True):
        repairing = repair and not result.equal
        if repairing:
            _repair(log, options, table, [*wrong.missing, *wrong.different, *wrong.extra])
        found.append(replace(result, repairing=repairing))
    return found


def _all_audited(
    log: Log, options: CaptureOptions, tables: Sequence[Table], progress: Progress
) -> list[tuple[TableAudit, Differences]]:
    """Compares all tables as they are now. Raises `PositionGone` if compaction has overtaken it."""
    slot = create_slot(options, temporary=True)
    try:
        _wait(log, options, slot.start)
        with options.address.connect() as connection:
            return [_audited(connection, log, table, slot, progress) for table in tables]
    except psycopg.Error as error:
        raise options.address.failed(error) from error
    finally:
        slot.connection.finish()


def _audited(
    connection: Connection, log: Log, table: Table, slot: NewSlot, progress: Progress
) -> tuple[TableAudit, Differences]:
    """Compares one table as the slot's snapshot shows it; its lock ends with it."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(f"SET TRANSACTION SNAPSHOT {literal(slot.snapshot)}".encode())
        return _compare(connection, log, _locked(connection, table), table, slot.start, progress)


def _locked(connection: Connection, table: Table) -> SourceTable:
    """The table as it is, and as it stays until the end: nobody rewrites it, so its blocks hold the same rows."""
    source = table_of(connection, table.relation.oid)
    if source is not None:
        connection.execute(f"LOCK TABLE {source.source} IN ACCESS SHARE MODE".encode())
    if source is None or source.relation.columns != table.relation.columns:
        raise UsageError(
            f"Table {table.name} was changed, and the log does not know of it yet.",
            hint=f"Re-read it (`headwater capture snapshot APP {table.name}`) or change a row of it, and audit then.",
        )
    return source


def _compare(
    connection: Connection, log: Log, source: SourceTable, table: Table, lsn: Lsn, progress: Progress
) -> tuple[TableAudit, Differences]:
    rows = rows_at(log, table, lsn)
    division = divided(table, rows)
    there = _sums_in_source(connection, table, division, progress)
    here = sums_of(rows.digests, division.numbers)
    wrong = differing(there, here)
    fetched = _fetch(connection, source, table, division, wrong) if wrong else []
    found = differences(fetched, _known(rows, division, wrong, table))
    total, known = sum(there.values(), Sums()), sum(here.values(), Sums())
    return TableAudit(
        table.name, table.topic, str(lsn), total.rows, known.rows,
        f"{total.checksum:016x}", f"{known.checksum:016x}", len(division.ranges), len(wrong), len(fetched),
        _typed(found.missing, table), _typed(found.different, table), _typed(found.extra, table),
    ), found  # fmt: skip


def _sums_in_source(connection: Connection, table: Table, division: Division, progress: Progress) -> dict[int, Sums]:
    """Counts and checksums per range, computed by the server, some blocks at a time."""
    checked = f"('x' || substr(md5({row_text(table.relation)}), 1, 15))::bit(60)::int8"
    columns = f"{division.number}, count(*), sum({checked}) % {2**64}"
    found: dict[int, Sums] = {}
    places = blocks_of(connection, [table])
    for done, (_, blocks) in enumerate(places):
        query = f"SELECT {columns} FROM ONLY {blocks.table} WHERE {blocks.condition} GROUP BY 1"
        for number, count, checksum in connection.execute(query.encode()):
            found[number] = found.get(number, Sums()) + Sums(count, int(checksum))
        progress(table.name, done + 1, len(places))
    return found


def _fetch(
    connection: Connection, source: SourceTable, table: Table, division: Division, numbers: Sequence[int]
) -> list[tuple[Key, bytes]]:
    """Keys and digests of the rows in some ranges; of rows without a key, each the n-th with its digest."""
    digest = f"md5({row_text(table.relation)})"
    columns = [text_of(each) for name in table.key for each in table.relation.columns if each.name == name]
    if table.counted:
        columns = [f"{digest} || '-' || row_number() OVER (PARTITION BY {digest})"]
    query = f"SELECT {', '.join([*columns, digest])} FROM {source.source} WHERE {division.condition(numbers)}"
    return [(tuple(row[:-1]), str(row[-1]).encode()) for row in connection.execute(query.encode())]


def _known(rows: LogSide, division: Division, numbers: Sequence[int], table: Table) -> dict[Key, bytes]:
    """Keys, as texts, and digests of the topic's rows in some ranges."""
    if not numbers:
        return {}
    chosen = np.flatnonzero(np.isin(division.numbers, list(numbers)))
    keys = rows.keys.take(pa.array(chosen, pa.int64())).combine_chunks()
    types = {each.name: each.arrow for each in table.relation.columns} | {ROW.name: ROW.type}
    columns = [to_texts(pa.concat_arrays(keys[name].chunks), types[name]).to_pylist() for name in table.topic_key]
    return dict(zip(zip(*columns, strict=True), rows.digests[chosen].tolist(), strict=True)) if len(chosen) else {}


def _typed(keys: Sequence[Key], table: Table) -> tuple[tuple[Any, ...], ...]:
    types = {each.name: each.arrow for each in table.relation.columns} | {ROW.name: ROW.type}
    columns = [
        convert(pa.array([key[at] for key in keys], pa.string()), types[name])[0].to_pylist()
        for at, name in enumerate(table.topic_key)
    ]
    return tuple(zip(*columns, strict=True))


def _wait(log: Log, options: CaptureOptions, lsn: Lsn) -> None:
    """Returns when the log has everything up to a place; somebody has to capture meanwhile."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while captured_to(log, options) < lsn:
        if time.monotonic() > deadline:
            raise UsageError(
                f"The log is at {captured_to(log, options)}, and the audit at {lsn}.",
                hint="Let the capture run while you audit: `headwater capture APP`.",
            )
        time.sleep(0.1)


def _repair(log: Log, options: CaptureOptions, table: Table, keys: Sequence[Key]) -> None:
    """Asks for the keys; of a table without one, for a look at all rows, which writes exactly those that differ."""
    oid = table.relation.oid
    size = sum(len(text) for key in keys for text in key)
    whole = table.counted or len(keys) > REPAIR_KEYS_MAX or size > REPAIR_BYTES_MAX
    if whole:
        jobs = [new_job(oid, purge=True)]
    else:
        jobs = [keys_job(oid, keys[first : first + KEYS_MAX]) for first in range(0, len(keys), KEYS_MAX)]
    asked = [job.to_json() for job in jobs]
    options.life(log).ask(asked)
