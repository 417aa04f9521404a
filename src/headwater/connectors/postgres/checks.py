"""Everything that has to be in place before a database can be captured, looked at before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.connectors.postgres.inventory import Connection, SourceTable, chosen, matches, tables_of
from headwater.connectors.postgres.naming import literal, qualified, quoted
from headwater.connectors.postgres.options import CaptureOptions
from headwater.errors import CaptureRefused, Missing

VERSION_MIN = 14
_GLOB = set("*?[")


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


def check(connection: Connection, options: CaptureOptions) -> Plan:
    """Looks at everything, changes nothing. Raises `CaptureRefused` with all that is missing and what provides it."""
    everything = tables_of(connection)
    tables = chosen(everything, options.patterns, options.schemas)
    names = options.names
    slot = connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (names.slot,)).fetchone()
    plan = Plan(connection.info.server_version // 10_000, tables, slot is not None, published(connection, options))
    missing = [
        *_server(connection, plan),
        *_named(options, everything, tables),
        *(lack for table in tables for lack in _table(table, _user(connection))),
        *_same_topics(options, tables),
        *_publications(connection, options, plan),
        *_publishing(connection, options, plan),
    ]
    if missing:
        raise CaptureRefused(str(options.address), missing)
    return plan


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
    role = connection.execute("SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user").fetchone()
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
                    f"or drop one that nobody uses: SELECT * FROM {view};",
                )


def _named(
    options: CaptureOptions, everything: Sequence[SourceTable], tables: Sequence[SourceTable]
) -> Iterator[Missing]:
    known = ", ".join(each.name for each in everything[:10]) or "none that this user sees"
    for pattern in options.patterns:
        if not _GLOB & set(pattern) and not any(matches(pattern, each.relation) for each in tables):
            partition = [each for each in everything if each.partition and matches(pattern, each.relation)]
            if partition:
                yield Missing(f"table {pattern!r}: it is a partition", "Name the partitioned table instead.")
            else:
                yield Missing(f"table {pattern!r}: there is none of this name", f"The database has: {known}.")
    for schema in options.schemas:
        if all(each.relation.schema != schema for each in everything):
            yield Missing(f"a table in schema {schema!r}: it has none, or is not there", f"The database has: {known}.")
    if not tables and any(_GLOB & set(pattern) for pattern in options.patterns):
        yield Missing("a table: no table matches, so nothing would be captured", f"The database has: {known}.")


def _table(table: SourceTable, user: str) -> Iterator[Missing]:
    relation = table.relation
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
    if table.counted:
        for part in table.not_whole:
            yield Missing(
                f"the whole old row of changes in {part}, a partition of {table.name}, which has no key",
                f"ALTER TABLE {part} REPLICA IDENTITY FULL;",
            )


def published_oids(connection: Connection, options: CaptureOptions) -> set[int]:
    """The numbers of the tables that are in a publication of the source, partitioned ones by their root."""
    names = [options.names.publication, options.names.append_only]
    rows = connection.execute(
        "SELECT c.oid::int8 FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname "
        "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE p.pubname = ANY(%s)",
        (names,),
    )
    return {int(row[0]) for row in rows}


def published(connection: Connection, options: CaptureOptions) -> dict[str, set[str]]:
    """The tables of each publication of the source that is there."""
    found: dict[str, set[str]] = {}
    for publication in (options.names.publication, options.names.append_only):
        if connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,)).fetchone():
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
        foreign = [table for table in absent if not table.owned]
        if there is None and not may_create(connection):
            yield Missing(f"publication {publication!r}", create_publication(options, publication, absent) + ";")
        elif foreign:
            remedy = (
                create_publication(options, publication, absent)
                if there is None
                else f"ALTER PUBLICATION {quoted(publication)} ADD TABLE {listed}"
            )
            owners = ", ".join(sorted({table.owner for table in foreign}))
            yield Missing(
                f"{listed} in publication {publication!r}; they belong to {owners}", f"{remedy};  -- as {owners}"
            )


def _same_topics(options: CaptureOptions, tables: Sequence[SourceTable]) -> Iterator[Missing]:
    """Tables whose names differ only in what a topic's name can not have."""
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
