"""How a source is: how far it is behind, what the database keeps for it, and what somebody should look at."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headwater.cdc.postgres.lsn import Lsn
from headwater.connectors.capture.lifecycle import State, jobs_in, state_in
from headwater.connectors.postgres.applying import captured_to
from headwater.connectors.postgres.inventory import Connection
from headwater.connectors.postgres.options import WAL_ALARM_PART, CaptureOptions
from headwater.connectors.postgres.snapshot import blocks_read
from headwater.connectors.postgres.tables import NOTHING_TO_DO, Table, Tables
from headwater.log.port import Log

_SLOT = """
SELECT active, wal_status, pg_current_wal_insert_lsn()::text,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn)::int8, safe_wal_size::int8,
       current_setting('max_slot_wal_keep_size')
FROM pg_replication_slots WHERE slot_name = %s
"""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A captured table: `state` is `streaming`, `reading` (a snapshot of it is asked for), or why it is not captured.

    `stopped` needs a person; `dropped` and `removed` (from the source's tables) do not. `blocks_left` is what is still
    to be read of it; None if it is not being read, or if that is not known yet.
    """

    name: str
    topic: str
    state: str
    reason: str | None
    blocks_left: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """What `headwater capture status` shows. Bytes are of WAL: behind, and kept by the database for this source.

    Blocks are those of the first snapshot while it is read, otherwise 0.
    """

    source: str
    address: str
    phase: str
    paused: bool
    captured: str
    slot: str
    slot_status: str
    active: bool
    bytes_behind: int
    bytes_retained: int
    bytes_until_lost: int | None
    seconds_behind: float
    blocks_read: int
    blocks_total: int
    tables: tuple[TableStatus, ...]
    alarms: tuple[str, ...]


def status_of(log: Log, options: CaptureOptions, connection: Connection) -> Status:
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
    status = Status(
        options.name, str(options.address), state_in(stored).value, life.is_paused,
        str(captured), names.slot, wal_status or "unknown", bool(active), behind, int(retained or 0), until_lost,
        seconds, read, total, found, (),
    )  # fmt: skip
    return _with_alarms(status, options, keep)


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


def _with_alarms(status: Status, options: CaptureOptions, keep: str) -> Status:
    alarms: list[str] = []
    if status.phase == State.STREAMING.value and status.slot_status in ("missing", "lost"):
        alarms.append(
            f"the replication slot is {status.slot_status}: the next run makes a new one and compares all rows"
        )
    elif status.slot_status == "unreserved":
        alarms.append("the database is about to remove WAL that was not captured yet")
    if status.phase == State.STREAMING.value and not status.active and not status.paused:
        alarms.append("nobody captures")
    if status.bytes_retained > options.wal_alarm_bytes:
        alarms.append(f"the database keeps {status.bytes_retained:,} bytes of WAL for it")
    room = status.bytes_until_lost
    if room is not None and keep != "-1" and status.bytes_retained > WAL_ALARM_PART * (status.bytes_retained + room):
        alarms.append(f"{max(room, 0):,} bytes of WAL more, and max_slot_wal_keep_size = {keep} ends the slot")
    # A database that writes something every now and then is behind by a little, and for a moment.
    limit = max(options.wal_alarm_age, 3 * options.heartbeat)
    if status.seconds_behind > limit.total_seconds():
        alarms.append(f"it is {status.seconds_behind:.0f} s behind")
    alarms += [
        f"{table.name} is not captured any more: {table.reason}" for table in status.tables if table.state == "stopped"
    ]
    values = {name: getattr(status, name) for name in Status.__slots__}
    return Status(**{**values, "alarms": tuple(alarms)})
