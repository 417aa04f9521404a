"""How a source is: how far it is behind, what the database keeps for it, and what somebody should look at."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from headwater.cdc.postgres.lsn import Lsn
from headwater.connectors.capture.lifecycle import State, jobs_in, state_in
from headwater.connectors.postgres.applying import captured_to
from headwater.connectors.postgres.inventory import Connection
from headwater.connectors.postgres.options import WAL_ALARM_PART, CaptureOptions
from headwater.connectors.postgres.snapshot import blocks_read
from headwater.connectors.postgres.tables import NOTHING_TO_DO, Table, Tables
from headwater.engine.sources import SourceStatus, TableStatus
from headwater.log.port import Log

KIND = "postgres"

_SLOT = """
SELECT active, wal_status, pg_current_wal_insert_lsn()::text,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn)::int8, safe_wal_size::int8,
       current_setting('max_slot_wal_keep_size')
FROM pg_replication_slots WHERE slot_name = %s
"""


def status_of(log: Log, options: CaptureOptions, connection: Connection) -> SourceStatus:
    """The status now. Reads, and changes nothing."""
    names, life = options.names, options.life(log)
    stored = life.stored
    tables = Tables(log, options)
    tables.load()
    captured = captured_to(log, options)
    row: Any = connection.execute(_SLOT, (names.slot,)).fetchone()
    active, wal_status, now, retained, until_lost, keep = row or (False, "missing", "0/0", 0, None, "-1")
    behind = max(0, Lsn.parse(now) - captured) if captured and row else 0
    position: Any = log.bookmark(names.position)
    seconds = _age(position) if behind and position else 0.0
    reading = {job["oid"]: job["blocks"] for job in jobs_in(stored)}
    read, total = blocks_read(options.directory / "snapshot")
    found = tuple(
        TableStatus(
            table.name,
            table.topic,
            _state(table, reading),
            table.stopped,
            _left(reading.get(table.relation.oid)),
        )
        for table in tables.by_oid.values()
    )
    status = SourceStatus(
        source=options.name, kind=KIND, address=str(options.address), phase=state_in(stored).value,
        paused=life.is_paused, active=bool(active), position=str(captured), bytes_behind=behind,
        bytes_retained=int(retained or 0), bytes_until_lost=until_lost, seconds_behind=seconds, blocks_read=read,
        blocks_total=total, tables=found, details=(("slot", f"{names.slot} {wal_status or 'unknown'}"),), alarms=(),
    )  # fmt: skip
    alarms = [*_slot_alarms(status, wal_status), *_room_alarms(status, options, keep), *_other_alarms(status, options)]
    return replace(status, alarms=tuple(alarms))


def _state(table: Table, reading: Collection[int]) -> str:
    if table.stopped is not None:
        return NOTHING_TO_DO.get(table.stopped, "stopped")
    return "reading" if table.relation.oid in reading else "streaming"


def _left(blocks: list[tuple[str, int, int]] | None) -> int | None:
    return None if blocks is None else sum(end - first for _, first, end in blocks)


def _age(position: dict[str, str]) -> float:
    if "at" not in position:
        return 0.0
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(position["at"])).total_seconds())


def _slot_alarms(status: SourceStatus, slot_status: str) -> Iterator[str]:
    if status.phase == State.STREAMING.value and slot_status in ("missing", "lost"):
        yield f"the replication slot is {slot_status}: the next run makes a new one and compares all rows"
    elif slot_status == "unreserved":
        yield "the database is about to remove WAL that was not captured yet"
    if status.phase == State.STREAMING.value and not status.active and not status.paused:
        yield "no process captures it"


def _room_alarms(status: SourceStatus, options: CaptureOptions, keep: str) -> Iterator[str]:
    retained, room = status.bytes_retained or 0, status.bytes_until_lost
    if retained > options.wal_alarm_bytes:
        yield f"the database keeps {retained:,} bytes of WAL for it"
    if room is not None and keep != "-1" and retained > WAL_ALARM_PART * (retained + room):
        yield f"{max(room, 0):,} bytes of WAL more, and max_slot_wal_keep_size = {keep} ends the slot"


def _other_alarms(status: SourceStatus, options: CaptureOptions) -> Iterator[str]:
    # A database that writes something every now and then is behind by a little, and for a moment.
    limit = max(options.wal_alarm_age, 3 * options.heartbeat)
    seconds = status.seconds_behind or 0.0
    if seconds > limit.total_seconds():
        yield f"it is {seconds:.0f} s behind"
    for table in status.tables:
        if table.state == "stopped":
            yield f"{table.name} is not captured any more: {table.reason}"
