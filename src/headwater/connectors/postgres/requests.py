"""What any process may ask of a capture, whichever process runs it: to read a table, or to capture one again."""

from __future__ import annotations

import psycopg

from headwater.connectors.postgres.inventory import table_of
from headwater.connectors.postgres.jobs import Job, new_job
from headwater.connectors.postgres.naming import qualified
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.tables import Table, Tables
from headwater.errors import CaptureRefused, Missing, UsageError
from headwater.log.port import Log

_DROP_TOPIC = "Drop its topic (`headwater log drop`): it is recreated and filled again when the table is captured."


def request_snapshot(
    log: Log, options: CaptureOptions, name: str, *, where: str | None = None, purge: bool = False
) -> Job:
    """Asks for an incremental snapshot of a table; whichever process captures will take it. Raises `CaptureRefused`."""
    table = _known(_loaded(log, options), name)
    if table.stopped is not None:
        remedy = f"`headwater capture resume` with {table.name} takes it up again, if the reason is gone."
        raise CaptureRefused(f"table {name!r}", [Missing(f"its capture: {table.stopped}", remedy)])
    if options.is_outbox(table.name):
        raise CaptureRefused(f"table {name!r}", [Missing("rows that may appear twice", "An outbox has events.")])
    if table.append_only:
        raise CaptureRefused(f"table {name!r}", [Missing("a key by which its rows replace others", _DROP_TOPIC)])
    if where is not None:
        _check_condition(options, table, where)
    job = new_job(table.relation.oid, where=where, purge=purge)
    options.life(log).ask([job.to_json()])
    return job


def resume_table(log: Log, options: CaptureOptions, name: str) -> None:
    """Captures a table again that was stopped; it is read again, by whichever process captures."""
    life = options.life(log)
    while True:
        tables = _loaded(log, options)
        stored = life.stored
        resumed = _resumed(options, tables, _known(tables, name))
        job = new_job(resumed.relation.oid, purge=not resumed.append_only)
        jobs = [] if options.is_outbox(resumed.name) else [job.to_json()]
        with log.commit(on_conflict="return") as commit:
            tables.moves(commit)
            life.add_jobs(commit, stored, jobs)
        if commit.conflict is None:
            return


def _loaded(log: Log, options: CaptureOptions) -> Tables:
    tables = Tables(log, options)
    tables.load()
    return tables


def _known(tables: Tables, name: str) -> Table:
    table = tables.named(name)
    if table is None:
        known = ", ".join(each.name for each in tables.by_oid.values()) or "none yet"
        raise CaptureRefused(f"table {name!r}", [Missing("it is not captured", f"Captured tables: {known}.")])
    return table


def _resumed(options: CaptureOptions, tables: Tables, table: Table) -> Table:
    if not tables.is_wanted(table):
        remedy = f'app.postgres(…, tables=[…, "{table.name}"])'
        raise CaptureRefused(f"table {table.name!r}", [Missing("its name among the tables of the source", remedy)])
    with options.address.connect() as connection:
        found = table_of(connection, table.relation.oid)
    if found is None:
        raise CaptureRefused(f"table {table.name!r}", [Missing("the table", "It was dropped, or belongs to others.")])
    resumed = tables.resume(table, found)
    if resumed.stopped is not None:
        raise CaptureRefused(f"table {table.name!r}", [Missing(resumed.stopped, _DROP_TOPIC)])
    return resumed


def _check_condition(options: CaptureOptions, table: Table, where: str) -> None:
    """Refuses a condition that the database does not understand: a job that fails would come again and again."""
    if not table.key:
        raise UsageError(
            f"Without a key, {table.name} can only be re-read completely.", hint="Leave the condition out."
        )
    name = qualified(table.relation.schema, table.relation.table)
    with options.address.connect() as connection:
        try:
            connection.execute(f"EXPLAIN SELECT 1 FROM {name} WHERE ({where})".encode())
        except psycopg.Error as error:
            raise UsageError(
                f"The condition cannot be used: {error.diag.message_primary}.",
                hint="Write what follows WHERE in a query of the table: id < 1000.",
            ) from None
