"""A PostgreSQL database as a source of an application: what one does with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import psycopg

from headwater.connectors.capture.lifecycle import Event
from headwater.connectors.postgres import setup
from headwater.connectors.postgres.address import address_of
from headwater.connectors.postgres.audit import Audit, audit
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.checks import Plan, check
from headwater.connectors.postgres.options import DURATIONS, CaptureOptions, CaptureSettings
from headwater.connectors.postgres.requests import request_snapshot, resume_table
from headwater.connectors.postgres.setup import Say
from headwater.connectors.postgres.snapshot import Progress
from headwater.connectors.postgres.status import Status, status_of
from headwater.connectors.postgres.tables import Tables
from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.model.durations import duration_of


class PostgresSource:
    """One database. `repr` and everything it says show no password."""

    def __init__(self, log: Log, options: CaptureOptions) -> None:
        self.log, self.options = log, options.check()

    def __repr__(self) -> str:
        return f"PostgresSource({self.options.name!r}, {str(self.options.address)!r})"

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def directory(self) -> Path:
        """Where captures keep what they know, and their heartbeat."""
        return self.options.directory

    def capture(self, *, say: Say = lambda _: None, progress: Progress = lambda _table, _done, _total: None) -> Capture:
        """What captures it when it is run."""
        return Capture(self.log, self.options, say=say, progress=progress)

    def check(self) -> Plan:
        """Looks whether the database can be captured, and changes nothing. Raises `CaptureRefused`."""
        with self.options.address.connect() as connection:
            return check(connection, self.options)

    def status(self) -> Status:
        with self.options.address.connect() as connection:
            return status_of(self.log, self.options, connection)

    def snapshot(self, table: str, *, where: str | None = None) -> None:
        """Asks for an incremental snapshot of a table, or of the rows that a condition in SQL names."""
        request_snapshot(self.log, self.options, table, where=where, purge=where is None)

    def pause(self) -> None:
        """Lets capture rest; the database keeps its changes until it goes on."""
        self.options.life(self.log).pause()

    def resume(self, table: str | None = None) -> None:
        """Lets capture go on; with a table, captures that one again, and reads it anew."""
        if table is None:
            self.options.life(self.log).resume()
        else:
            resume_table(self.log, self.options, table)

    def audit(self, *, repair: bool = False, progress: Progress = lambda _table, _done, _total: None) -> list[Audit]:
        """Compares every table with its topic at one place of the WAL. With `repair`, rows that differ come again.

        Tables whose rows are only appended, and the outbox, are not compared: their topics have more than they have.
        """
        tables = Tables(self.log, self.options)
        tables.load()
        chosen = [each for each in tables.active() if not each.append_only and not self.options.is_outbox(each.name)]
        return audit(self.log, self.options, chosen, repair=repair, progress=progress)

    def drop(self, *, say: Say = lambda _: None) -> None:
        """Removes the slot and the publications; topics stay. A later capture begins anew."""
        with self.options.address.connect() as connection:
            life = self.options.life(self.log)
            before = life.stored
            # First, so that a capture that runs does not take the slot for lost. What was captured stays in its topics:
            # rows that are gone by then are deleted by the next beginning.
            life.move(Event.DROP)
            try:
                setup.drop(connection, self.options, say)
            except psycopg.errors.InsufficientPrivilege as error:
                if setup.has_slot(connection, self.options):
                    life.undo_drop(before)
                raise UsageError(
                    f"{self.options.address}: {error.diag.message_primary}.", hint="Drop it as the user who made it."
                ) from None


def open_source(
    log: Log,
    name: str,
    url: str,
    *,
    tables: str | Sequence[str],
    schemas: str | Sequence[str],
    password_file: str | Path | None,
    **options: Unpack[CaptureSettings],
) -> PostgresSource:
    """A source of a log. Raises `UsageError` for an option that there is not."""
    known = CaptureSettings.__annotations__
    for option in options.keys() - known.keys():
        raise UsageError(f"A PostgreSQL source has no option {option!r}.", hint=f"Options: {', '.join(known)}.")
    directory = log.state_directory / "capture" / name
    tables, schemas = ([each] if isinstance(each, str) else list(each) for each in (tables, schemas))
    address = address_of(url, password_file=password_file)
    given: dict[str, Any] = {"directory": directory, **options}
    given |= {each: duration_of(each, given[each]) for each in DURATIONS if each in given}
    return PostgresSource(log, CaptureOptions(name, address, tables=tables, schemas=schemas, **given))
