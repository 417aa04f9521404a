"""Everything that has to be in place before a database can be captured, looked at before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from headwater.connectors.postgres.inventory import (
    Connection,
    SourceTable,
    chosen,
    is_chosen,
    matches,
    tables_of,
)
from headwater.connectors.postgres.naming import literal, qualified, quoted
from headwater.connectors.postgres.options import CaptureOptions
from headwater.errors import CaptureRefused, Missing

VERSION_MIN = 14
_GLOB = set("*?[")
OUTBOX_COLUMNS = ("topic", "payload")


@dataclass(frozen=True, slots=True)
class Plan:
    """What the checks have found: the tables to capture, what there is already, and what is still to be made."""

    version: int
    tables: list[SourceTable]
    has_slot: bool
    published: dict[str, set[str]]
    """By publication, the names of the tables in it; a publication that is missing is not there."""

    @property
    def keyed(self) -> list[SourceTable]:
        return [table for table in self.tables if table.key or table.counted]

    @property
    def append_only(self) -> list[SourceTable]:
        return [table for table in self.tables if not table.key and not table.counted]


_MAY_REPLICATE = """
SELECT rolsuper OR rolreplication OR EXISTS (
    SELECT 1 FROM pg_roles r WHERE r.rolname = 'rds_replication' AND pg_has_role(current_user, r.oid, 'MEMBER')
) FROM pg_roles WHERE rolname = current_user
"""
"""Amazon's servers give the right by a role, and not by an attribute."""


def check(connection: Connection, options: CaptureOptions, *, only: Collection[int] | None = None) -> Plan:
    """Looks at everything, changes nothing. Raises `CaptureRefused` with all that is missing and what provides it.

    With `only` it is about tables of these numbers, and those that the source names need not all be there.
    """
    everything = tables_of(connection)
    tables = chosen(everything, options.patterns, options.schemas)
    if only is not None:
        tables = [table for table in everything if table.relation.oid in only]
    plan = _plan(connection, options, tables)
    missing = [
        *_server(connection, plan),
        *(_named(options, everything, ()) if only is None else ()),
        *(lack for table in tables for lack in _table(connection, options, table)),
        *_same_topics(options, tables),
        *_publications(connection, options, plan),
        *_publishing(connection, options, plan),
    ]
    if missing:
        raise CaptureRefused(str(options.address), missing)
    # Whether the server takes connections of this kind from here, its own rules say (pg_hba.conf).
    options.address.replicate().finish()
    return plan


def check_names(options: CaptureOptions, everything: Sequence[SourceTable], known: Sequence[tuple[str, str]]) -> None:
    """Raises `CaptureRefused` if the source names a table that neither is there nor was ever captured."""
    missing = list(_named(options, everything, known))
    if missing:
        raise CaptureRefused(str(options.address), missing)


def check_more(
    connection: Connection, options: CaptureOptions, tables: Sequence[SourceTable]
) -> tuple[Plan, dict[str, list[Missing]]]:
    """Of tables that are to be captured besides others: those that can be, and what each of the others lacks."""
    fit: list[SourceTable] = []
    lacking: dict[str, list[Missing]] = {}
    whole = _plan(connection, options, tables)
    for table in tables:
        plan = replace(whole, tables=[table])
        missing = [*_table(connection, options, table), *_publications(connection, options, plan)]
        if missing:
            lacking[table.name] = missing
        else:
            fit.append(table)
    return replace(whole, tables=fit), lacking


def is_pattern(text: str) -> bool:
    """Whether it stands for any number of tables, and not for one."""
    return bool(_GLOB & set(text))


def _plan(connection: Connection, options: CaptureOptions, tables: Sequence[SourceTable]) -> Plan:
    slot = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
    has_slot = connection.execute(slot, (options.names.slot,)).fetchone() is not None
    version = connection.info.server_version // 10_000
    return Plan(version, list(tables), has_slot, published(connection, options))


def _user(connection: Connection) -> str:
    return str(connection.info.user)


def _setting(connection: Connection, name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def _server(connection: Connection, plan: Plan) -> Iterator[Missing]:
    if plan.version < VERSION_MIN:
        yield Missing(f"PostgreSQL {VERSION_MIN} or newer: this is {plan.version}", "Upgrade the server.")
    if _setting(connection, "wal_level") != "logical":
        yield Missing(
            f"wal_level = logical: it is {_setting(connection, 'wal_level')}",
            "ALTER SYSTEM SET wal_level = 'logical';  -- then restart the server",
        )
    user = _user(connection)
    role = connection.execute(_MAY_REPLICATE).fetchone()
    if role is None or not role[0]:
        yield Missing(f"the right of {user} to replicate", f"ALTER ROLE {quoted(user)} REPLICATION;")
    if not plan.has_slot:
        for setting, view in (
            ("max_replication_slots", "pg_replication_slots"),
            ("max_wal_senders", "pg_stat_replication"),
        ):
            used = connection.execute(f"SELECT count(*) FROM {view}").fetchone()
            assert used is not None
            allowed = int(_setting(connection, setting))
            if int(used[0]) >= allowed:
                yield Missing(
                    f"a free replication slot: {setting} = {allowed}, and {used[0]} are in use",
                    f"ALTER SYSTEM SET {setting} = {allowed + 5};  -- then restart the server; "
                    f"or drop an unused one: SELECT * FROM {view};",
                )


def _named(
    options: CaptureOptions, everything: Sequence[SourceTable], known: Sequence[tuple[str, str]]
) -> Iterator[Missing]:
    """What the source names and is not there; `known` are names of tables that it has captured."""
    there = [(each.relation.schema, each.relation.table) for each in everything if not each.partition]
    listed = ", ".join(each.name for each in everything[:10]) or "none that this user sees"
    for pattern in options.patterns:
        if not is_pattern(pattern) and not any(matches(pattern, *name) for name in (*there, *known)):
            if any(matches(pattern, each.relation.schema, each.relation.table) for each in everything):
                yield Missing(f"table {pattern!r}: it is a partition", "Name the partitioned table instead.")
            else:
                yield Missing(f"table {pattern!r}: it does not exist", f"The database has: {listed}.")
    for schema in options.schemas:
        if all(name[0] != schema for name in (*there, *known)):
            yield Missing(
                f"a table in schema {schema!r}: it has none, or does not exist", f"The database has: {listed}."
            )
    chosen_ones = [name for name in (*there, *known) if is_chosen(*name, options.patterns, options.schemas)]
    if not chosen_ones and any(map(is_pattern, options.patterns)):
        yield Missing("a table: no table matches, so nothing would be captured", f"The database has: {listed}.")


def _table(connection: Connection, options: CaptureOptions, table: SourceTable) -> Iterator[Missing]:
    relation, user = table.relation, _user(connection)
    name = qualified(relation.schema, relation.table)
    if not table.readable:
        yield Missing(
            f"the right of {user} to read {table.name}",
            f"GRANT USAGE ON SCHEMA {quoted(relation.schema)} TO {quoted(user)}; "
            f"GRANT SELECT ON {name} TO {quoted(user)};",
        )
    if table.unlogged:
        yield Missing(f"WAL of table {table.name}: it is unlogged", f"ALTER TABLE {name} SET LOGGED;")
    if not relation.columns:
        yield Missing(f"a column in table {table.name}", "Leave the table out.")
    generated = [column for column in table.key if column not in relation.names]
    if generated and relation.columns:
        yield Missing(
            f"a key of {table.name} that is published: column {generated[0]} is generated",
            f"ALTER TABLE {name} REPLICA IDENTITY USING INDEX …;  -- or FULL, after taking the primary key away",
        )
    if options.is_outbox(table.name):
        yield from _outbox(connection, options, table)
    if table.counted:
        for part in table.not_whole:
            yield Missing(
                f"the complete old row of changes in {part}, a partition of {table.name}, which has no key",
                f"ALTER TABLE {part} REPLICA IDENTITY FULL;",
            )


def _outbox(connection: Connection, options: CaptureOptions, table: SourceTable) -> Iterator[Missing]:
    name = qualified(table.relation.schema, table.relation.table)
    for column in OUTBOX_COLUMNS:
        if column not in table.relation.names:
            yield Missing(
                f"column {column!r} in the outbox {table.name}", f"ALTER TABLE {name} ADD COLUMN {column} text;"
            )
    if not options.outbox_delete:
        return
    if not table.key:
        yield Missing(
            f"a key of {table.name} by which its rows can be deleted",
            f"ALTER TABLE {name} ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY;",
        )
    may = connection.execute("SELECT has_table_privilege(%s::oid, 'DELETE')", (table.relation.oid,)).fetchone()
    if may is None or not may[0]:
        user = _user(connection)
        yield Missing(f"the right of {user} to delete from {table.name}", f"GRANT DELETE ON {name} TO {quoted(user)};")


def published_oids(connection: Connection, options: CaptureOptions) -> set[int]:
    """The numbers of the tables that are in a publication of the source, partitioned ones by their root."""
    names = [options.names.publication, options.names.append_only]
    rows = connection.execute(
        "SELECT c.oid::int8 FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname "
        "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE p.pubname = ANY(%s)",
        (names,),
    )
    return {int(row[0]) for row in rows}


def publications(connection: Connection, options: CaptureOptions) -> dict[str, int]:
    """The publications of the source that are there, and their numbers: one that is made again has another."""
    names = [options.names.publication, options.names.append_only]
    rows = connection.execute("SELECT pubname::text, oid::int8 FROM pg_publication WHERE pubname = ANY(%s)", (names,))
    return {str(name): int(number) for name, number in rows}


def published(connection: Connection, options: CaptureOptions) -> dict[str, set[str]]:
    """The tables of each publication of the source that is there."""
    found: dict[str, set[str]] = {}
    for publication in sorted(publications(connection, options)):
        rows = connection.execute(
            "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s", (publication,)
        )
        found[publication] = {str(row[0]) for row in rows}
    return found


def _publications(connection: Connection, options: CaptureOptions, plan: Plan) -> Iterator[Missing]:
    """What this user lacks to publish what is not published yet."""
    names = options.names
    for publication, tables in ((names.publication, plan.keyed), (names.append_only, plan.append_only)):
        there = plan.published.get(publication)
        absent = [table for table in tables if table.name not in (there or ())]
        if not absent:
            continue
        listed = ", ".join(qualified(table.relation.schema, table.relation.table) for table in absent)
        foreign = [table.owner for table in absent if not table.owned]
        if there is not None and not may_alter(connection, publication):
            foreign.append(f"the owner of {publication}")
        if there is None and not may_create(connection):
            yield Missing(f"publication {publication!r}", create_publication(options, publication, absent) + ";")
        elif foreign:
            remedy = (
                create_publication(options, publication, absent)
                if there is None
                else f"ALTER PUBLICATION {quoted(publication)} ADD TABLE {listed}"
            )
            owners = ", ".join(sorted(set(foreign)))
            yield Missing(f"{listed} in publication {publication!r}", f"{remedy};  -- as {owners}")


def _same_topics(options: CaptureOptions, tables: Sequence[SourceTable]) -> Iterator[Missing]:
    """Tables whose names differ only in what a topic's name cannot have."""
    known: dict[str, str] = {}
    for table in tables:
        topic = options.names.topic(table.relation.schema, table.relation.table)
        other = known.setdefault(topic, table.name)
        if other != table.name:
            yield Missing(f"a topic for {table.name}: {topic!r} is that of {other}", "Rename one, or leave it out.")


_PUBLISHING = """
SELECT p.pubname, p.pubinsert AND p.pubtruncate, p.pubupdate AND p.pubdelete, p.pubviaroot
FROM pg_publication p WHERE p.pubname = ANY(%s)
"""
_PARTLY = """
SELECT p.pubname, r.prrelid::regclass::text FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
WHERE p.pubname = ANY(%s) AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)
"""
PARTLY_VERSION = 15


def _publishing(connection: Connection, options: CaptureOptions, plan: Plan) -> Iterator[Missing]:
    """What a publication that somebody else has made leaves out."""
    names = [options.names.publication, options.names.append_only]
    for name, inserts, changes, via_root in connection.execute(_PUBLISHING, (names,)):
        if not inserts or not via_root or (name == options.names.publication and not changes):
            operations = "insert, update, delete, truncate" if name == options.names.publication else "insert, truncate"
            yield Missing(
                f"changes that publication {name!r} leaves out, or sends as those of partitions",
                f"ALTER PUBLICATION {quoted(name)} SET (publish = {literal(operations)}, "
                "publish_via_partition_root = true);",
            )
    if plan.version < PARTLY_VERSION:
        return
    for name, table in connection.execute(_PARTLY, (names,)):
        yield Missing(
            f"rows or columns of {table} that publication {name!r} leaves out",
            f"ALTER PUBLICATION {quoted(name)} DROP TABLE {table}; ALTER PUBLICATION {quoted(name)} ADD TABLE {table};",
        )


def may_alter(connection: Connection, publication: str) -> bool:
    """Whether a publication belongs to this user."""
    query = "SELECT pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = %s"
    row = connection.execute(query, (publication,)).fetchone()
    return row is not None and bool(row[0])


def may_create(connection: Connection) -> bool:
    """Whether this user may create publications."""
    row = connection.execute("SELECT has_database_privilege(current_database(), 'CREATE')").fetchone()
    return row is not None and bool(row[0])


def create_publication(options: CaptureOptions, publication: str, tables: Sequence[SourceTable]) -> str:
    """The SQL that makes a publication of these tables."""
    listed = ", ".join(qualified(table.relation.schema, table.relation.table) for table in tables)
    # Without an identity, PostgreSQL refuses updates and deletes of a table that publishes them: that would be ours to
    # answer for. So only what it may do is published.
    only = f"publish = {literal('insert, truncate')}, " if publication == options.names.append_only else ""
    of = f" FOR TABLE {listed}" if listed else ""
    return f"CREATE PUBLICATION {quoted(publication)}{of} WITH ({only}publish_via_partition_root = true)"
