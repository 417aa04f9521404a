"""Makes and removes what a source needs in its database: the publications and the replication slot."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from headwater.cdc.postgres.lsn import Lsn
from headwater.connectors.postgres.address import wait
from headwater.connectors.postgres.checks import Plan, create_publication, may_alter, may_create
from headwater.connectors.postgres.inventory import Connection, SourceTable
from headwater.connectors.postgres.naming import qualified, quoted
from headwater.connectors.postgres.options import CaptureOptions
from headwater.errors import SourceUnavailable

Say = Callable[[str], None]
NAMES_SHOWN_MAX = 20
# After so long it is said what a new slot waits for.
WAIT_SAID_SECONDS = 5.0
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that was just made: from `start` on it has every change. `snapshot` shows the database as it was there.

    The snapshot lives as long as the connection is neither used nor closed.
    """

    start: Lsn
    snapshot: str
    connection: PGconn


def publish(connection: Connection, options: CaptureOptions, plan: Plan, say: Say) -> None:
    """Sees to it that every table of the plan is published."""
    names = options.names
    for publication, tables in ((names.publication, plan.keyed), (names.append_only, plan.append_only)):
        there = plan.published.get(publication)
        absent = [table for table in tables if table.name not in (there or ())]
        listed = _listed(absent)
        if there is None and (absent or may_create(connection)):
            # Also without tables: one that comes later is only added, and the stream names both from the beginning.
            connection.execute(create_publication(options, publication, absent).encode())
            if absent:
                say(f"Created publication {publication} of {listed}.")
        elif not absent:
            continue
        else:
            add_tables(connection, publication, absent)
            say(f"Added {listed} to publication {publication}.")


def add_tables(connection: Connection, publication: str, tables: list[SourceTable]) -> None:
    """Adds tables to a publication."""
    listed = ", ".join(qualified(table.relation.schema, table.relation.table) for table in tables)
    connection.execute(f"ALTER PUBLICATION {quoted(publication)} ADD TABLE {listed}".encode())


def remove_table(connection: Connection, publication: str, table: SourceTable) -> None:
    """Takes a table out of a publication, unless that has it with its whole schema, or belongs to others."""
    query = "SELECT 1 FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = %s "
    listed = connection.execute(
        f"{query} AND r.prrelid = %s::oid".encode(), (publication, table.relation.oid)
    ).fetchone()
    if listed is not None and may_alter(connection, publication):
        name = qualified(table.relation.schema, table.relation.table)
        connection.execute(f"ALTER PUBLICATION {quoted(publication)} DROP TABLE {name}".encode())


def _listed(tables: Sequence[SourceTable]) -> str:
    """Tables by their names, unless they are very many."""
    if len(tables) > NAMES_SHOWN_MAX:
        return f"{tables[0].name}, {tables[1].name} and {len(tables) - 2:,} other tables"
    return ", ".join(table.name for table in tables)


def create_slot(
    options: CaptureOptions,
    *,
    temporary: bool = False,
    stop: threading.Event | None = None,
    say: Say = lambda _: None,
) -> NewSlot:
    """Makes the slot, and a snapshot of the database at its start. Waits for transactions that are under way.

    A temporary one has a name of its own and goes with its connection. Raises `SourceUnavailable`, also when it shall
    `stop` meanwhile.
    """
    connection = options.address.replicate()
    name = f"{options.names.slot[:50]}_{uuid.uuid4().hex[:8]}" if temporary else options.names.slot
    kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
    command = f"CREATE_REPLICATION_SLOT {quoted(name)} {kind} pgoutput EXPORT_SNAPSHOT"
    try:
        connection.send_query(command.encode())
        result = _result(connection, stop or threading.Event(), say)
    except psycopg.OperationalError as error:
        connection.finish()
        raise options.address.unavailable(error) from None
    if result.status != pq.ExecStatus.TUPLES_OK:
        reason = connection.get_error_message()
        connection.finish()
        raise SourceUnavailable(str(options.address), f"the slot cannot be created: {' '.join(reason.split())}")
    start, snapshot = result.get_value(0, 1), result.get_value(0, 2)
    assert start is not None
    assert snapshot is not None
    return NewSlot(Lsn.parse(start.decode()), snapshot.decode(), connection)


def _result(connection: PGconn, stop: threading.Event, say: Say) -> PGresult:
    """What the server answers; it may have to wait for others first, for as long as they take."""
    began, said, cancelled = time.monotonic(), False, False
    while True:
        connection.consume_input()
        if not connection.is_busy():
            break
        if stop.is_set() and not cancelled:
            connection.get_cancel().cancel()
            cancelled = True
        if not said and time.monotonic() - began > WAIT_SAID_SECONDS:
            said = True
            say(
                "The slot is waiting for transactions that began earlier: "
                "SELECT * FROM pg_stat_activity ORDER BY xact_start;"
            )
        wait(connection.socket, POLL_SECONDS)
    result = connection.get_result()
    assert result is not None
    while connection.get_result() is not None:
        pass
    return result


def drop(connection: Connection, options: CaptureOptions, say: Say) -> None:
    """Removes the slot and the publications, if they are there."""
    names = options.names
    if has_slot(connection, options):
        drop_slot(connection, options)
        say(f"Dropped replication slot {names.slot}.")
    for publication in (names.publication, names.append_only):
        if connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,)).fetchone():
            connection.execute(f"DROP PUBLICATION {quoted(publication)}".encode())
            say(f"Dropped publication {publication}.")


def has_slot(connection: Connection, options: CaptureOptions) -> bool:
    """Whether the slot is there."""
    query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
    return connection.execute(query, (options.names.slot,)).fetchone() is not None


def drop_slot(connection: Connection, options: CaptureOptions) -> None:
    """Removes the slot; a capture that still uses it is ended first."""
    slot = options.names.slot
    connection.execute(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active", (slot,)
    )
    for attempt in range(50):
        try:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
        except psycopg.errors.ObjectInUse:
            if attempt == 49:
                raise
            connection.execute("SELECT pg_sleep(0.1)")
        else:
            return
