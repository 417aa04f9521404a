"""How a database is captured: what a user chooses, checked, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypedDict, get_args

from headwater.connectors.capture.lifecycle import Life
from headwater.connectors.postgres.address import Address
from headwater.connectors.postgres.naming import DEFAULT_SCHEMA, Names
from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.model.durations import Duration

HEARTBEAT = timedelta(seconds=10)
# Of the space that `max_slot_wal_keep_size` allows; the alarm comes before the slot is lost.
WAL_ALARM_PART = 0.5
WAL_ALARM_BYTES = 10 << 30
WAL_ALARM_AGE = timedelta(minutes=10)

TableHistory = Literal["current", "full"]

DURATIONS = ("heartbeat", "wal_alarm_age")
"""The options that are durations."""


class CaptureSettings(TypedDict, total=False):
    """The options of a source that its application may choose; see `CaptureOptions`."""

    outbox: str | None
    outbox_delete: bool
    heartbeat: Duration
    snapshot_workers: int
    partitions: int
    wal_alarm_bytes: int
    wal_alarm_age: Duration
    history: TableHistory


@dataclass(frozen=True)
class CaptureOptions:
    """A source: a database, which of its tables, and how.

    `heartbeat` is how often the slot is moved while no captured table changes, and how often new tables are looked for.
    `snapshot_workers` read the first snapshot at once. `partitions` is that of topics that are made. `outbox` names a
    table whose rows are events, `outbox_delete` whether they are deleted once they are in the log. `history` says what
    topics that are made keep of a table's rows: the `current` ones, or every version in `full`.
    """

    name: str
    address: Address
    tables: Sequence[str] = ()
    schemas: Sequence[str] = ()
    outbox: str | None = None
    outbox_delete: bool = False
    heartbeat: timedelta = HEARTBEAT
    snapshot_workers: int = 2
    partitions: int = 1
    wal_alarm_bytes: int = WAL_ALARM_BYTES
    wal_alarm_age: timedelta = WAL_ALARM_AGE
    history: TableHistory = "current"
    directory: Path = field(default=Path("capture"))

    @property
    def names(self) -> Names:
        return Names(self.name)

    def life(self, log: Log) -> Life:
        """Where the capture is in its life."""
        return Life(log, self.names.snapshot, self.names.paused)

    @property
    def patterns(self) -> tuple[str, ...]:
        return (*self.tables, *([self.outbox] if self.outbox else []))

    def is_outbox(self, table: str) -> bool:
        """Whether a table, named with its schema, is the outbox."""
        return self.outbox is not None and table in (self.outbox, f"{DEFAULT_SCHEMA}.{self.outbox}")

    def check(self) -> CaptureOptions:
        """The options themselves. Raises `UsageError`."""
        if isinstance(self.tables, str) or isinstance(self.schemas, str):
            raise UsageError("Tables and schemas must be lists.", hint='tables=["orders"], or tables=["*"].')
        if not self.patterns and not self.schemas:
            raise UsageError(
                f"Source {self.name!r} captures nothing: neither tables nor schemas are named.",
                hint='Name them: tables=["orders", "customers"], schemas=["billing"], or tables=["*"].',
            )
        if self.history not in get_args(TableHistory):
            raise UsageError(f"Invalid history={self.history!r}: expected 'current' or 'full'.")
        if self.heartbeat <= timedelta(0):
            raise UsageError(f"heartbeat cannot be {self.heartbeat}.", hint="Give it some seconds.")
        if self.snapshot_workers < 1:
            raise UsageError("A snapshot needs at least one worker.")
        return self
