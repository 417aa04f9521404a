"""A PostgreSQL database as a source of an application: what one does with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Unpack

import psycopg

from headwater.connectors.capture.lifecycle import Event, State, state_in
from headwater.connectors.postgres import setup
from headwater.connectors.postgres.address import address_of
from headwater.connectors.postgres.audit import audit
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.checks import check
from headwater.connectors.postgres.options import DURATIONS, CaptureOptions, CaptureSettings
from headwater.connectors.postgres.requests import request_snapshot, resume_table
from headwater.connectors.postgres.status import KIND, status_of
from headwater.connectors.postgres.tables import Tables
from headwater.engine.parts import Report, Stop
from headwater.engine.sources import DatabaseSource, Home, SourceStatus, TableAudit
from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.model.durations import duration_of


class PostgresSource(DatabaseSource):
    """One database. `repr` and everything it says show no password."""

    kind: ClassVar[str] = KIND

    def __init__(self, log: Log, options: CaptureOptions) -> None:
        self.log, self.options = log, options.check()
        super().__init__(Home(options.name, log, options.directory))

    def __repr__(self) -> str:
        return f"PostgresSource({self.options.name!r}, {self.address!r})"

    @property
    def address(self) -> str:
        return str(self.options.address)

    def capture(self, report: Report | None = None) -> Capture:
        """What captures it when it is run."""
        told = report or Report()
        return Capture(self.log, self.options, say=told.say, progress=told.progress)

    def check(self) -> list[str]:
        """The tables that would be captured. Raises `CaptureRefused`."""
        with self.options.address.connect() as connection:
            return [table.name for table in check(connection, self.options).tables]

    def run(self, stop: Stop, report: Report) -> None:
        capture = self.capture(report)
        with stop.calling(capture.stop):
            capture.run()

    def is_ready(self) -> bool:
        return state_in(self.options.life(self.log).stored) is State.STREAMING

    def status(self) -> SourceStatus:
        with self.options.address.connect() as connection:
            return status_of(self.log, self.options, connection)

    def snapshot(self, table: str, *, where: str | None = None) -> None:
        """Asks for an incremental snapshot of a table, or of the rows that a condition in SQL names."""
        request_snapshot(self.log, self.options, table, where=where, purge=where is None)

    def pause(self) -> None:
        """Pauses capture; the database keeps its changes until it resumes."""
        self.options.life(self.log).pause()

    def resume(self, table: str | None = None) -> None:
        """Resumes capture; with a table, captures that one again, and reads it again."""
        if table is None:
            self.options.life(self.log).resume()
        else:
            resume_table(self.log, self.options, table)

    def audit(self, report: Report | None = None, *, repair: bool = False) -> list[TableAudit]:
        """Compares every table with its topic at one place of the WAL. With `repair`, rows that differ are read again.

        Tables whose rows are only appended, and the outbox, are not compared: their topics have more than they have.
        """
        tables = Tables(self.log, self.options)
        tables.load()
        chosen = [each for each in tables.active() if not each.append_only and not self.options.is_outbox(each.name)]
        return audit(self.log, self.options, chosen, repair=repair, progress=(report or Report()).progress)

    def drop(self, report: Report | None = None) -> None:
        """Removes the slot and the publications; topics stay. A later capture begins again."""
        with self.options.address.connect() as connection:
            life = self.options.life(self.log)
            before = life.stored
            # First, so that a capture that runs does not take the slot for lost. What was captured stays in its topics:
            # rows that are gone by then are deleted by the next beginning.
            life.move(Event.DROP)
            try:
                setup.drop(connection, self.options, (report or Report()).say)
            except psycopg.errors.InsufficientPrivilege as error:
                if setup.has_slot(connection, self.options):
                    life.undo_drop(before)
                raise UsageError(
                    f"{self.options.address}: {error.diag.message_primary}.", hint="Drop it as the user who made it."
                ) from None


def open_postgres(
    home: Home,
    url: str,
    *,
    tables: str | Sequence[str] = (),
    schemas: str | Sequence[str] = (),
    password_file: str | Path | None = None,
    **options: Unpack[CaptureSettings],
) -> PostgresSource:
    """A database as a source. Raises `UsageError` for an option that there is not."""
    known = CaptureSettings.__annotations__
    for option in options.keys() - known.keys():
        raise UsageError(f"A PostgreSQL source has no option {option!r}.", hint=f"Options: {', '.join(known)}.")
    tables, schemas = ([each] if isinstance(each, str) else list(each) for each in (tables, schemas))
    address = address_of(url, password_file=password_file)
    given: dict[str, Any] = {"directory": home.directory, **options}
    given |= {each: duration_of(each, given[each]) for each in DURATIONS if each in given}
    return PostgresSource(home.log, CaptureOptions(home.name, address, tables=tables, schemas=schemas, **given))
