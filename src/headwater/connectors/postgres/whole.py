"""Reads a table without a key as a whole, as it is at one place of the WAL, while the stream waits before that place.

No row of the stream can be told from one that was read, so marks in the WAL do not help: from that place on the stream
counts, and not before. Of a table whose rows are counted, only what differs from the topic is written.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.postgres.lsn import Lsn
from headwater.cdc.staging import Staging
from headwater.connectors.postgres.applying import tombstones
from headwater.connectors.postgres.copying import Copier, selected
from headwater.connectors.postgres.incremental import Incremental
from headwater.connectors.postgres.inventory import SourceTable
from headwater.connectors.postgres.jobs import Job
from headwater.connectors.postgres.occurrences import ROW, Occurrences, keyed, live_rows
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.setup import create_slot
from headwater.connectors.postgres.snapshot import completed
from headwater.connectors.postgres.tables import Table, Tables, TablesMoved
from headwater.log.port import Log


def read_whole(
    log: Log, options: CaptureOptions, tables: Tables, source: SourceTable, incremental: Incremental, job: Job
) -> None:
    """Reads the job's table and commits it. Raises `TablesMoved` if somebody has changed the jobs meanwhile."""
    table = tables.by_oid[job.oid]
    staging = Staging(options.directory / "staged-whole")
    try:
        place = _read(log, options, table, source, staging)
        tables.read_at(table, place)
        with log.commit(on_conflict="return") as commit:
            for topic, rows in staging.tables():
                commit.append(topic, rows)
            tables.moves(commit)
            incremental.without({job.id}, commit)
        if commit.conflict is not None:
            raise TablesMoved
        tables.committed()
    finally:
        staging.close()
    incremental.refresh()


def _read(log: Log, options: CaptureOptions, table: Table, source: SourceTable, staging: Staging) -> Lsn:
    """Stages what the topic lacks; the place at which it was read."""
    slot = create_slot(options, temporary=True)
    headers = {"lsn": str(slot.start)}
    occurrences = Occurrences()
    there = live_rows(log, table.topic) if table.counted else pa.array([], ROW.type)
    found: list[pa.Array] = []
    try:
        copier = Copier(options.address, slot.snapshot)
        try:
            query = f"SELECT {selected(table.relation, digested=table.counted)} FROM {source.source}"
            for rows in copier.rows(table.relation, query):
                if table.counted:
                    numbered = keyed(rows, occurrences)
                    found.append(numbered[ROW.name].combine_chunks())
                    fresh = numbered.filter(pc.invert(pc.is_in(numbered[ROW.name], there)))
                    staging.append(table.topic, completed(fresh, headers))
                else:
                    staging.append(table.topic, completed(rows, headers))
        finally:
            copier.close()
    finally:
        slot.connection.finish()
    if table.counted and len(there):
        kept = pc.is_in(there, pa.concat_arrays(found) if found else pa.array([], ROW.type))
        gone = pa.table({ROW.name: there.filter(pc.invert(kept))})
        staging.append(table.topic, tombstones(gone, [headers]))
    return slot.start
