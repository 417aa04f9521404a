"""Set-up: everything is looked at before anything is changed, and what is missing comes with its SQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.connectors.postgres.source import PostgresSource
from headwater.errors import CaptureRefused, UsageError
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import assert_same, catch_up
from tests.postgres.servers import Server

Source = psycopg.Connection[Any]


@pytest.fixture
def role(source: Source, database: str) -> Iterator[str]:
    """A user who may do nothing."""
    name = f"r_{database}"
    source.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    source.execute(f"REASSIGN OWNED BY {name} TO postgres; DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


def missing(make: Make, *tables: str, **options: Any) -> str:
    with pytest.raises(CaptureRefused) as refused:
        make(*tables, **options).prepare()
    return refused.value.message


def test_what_would_capture_nothing_is_an_error(source: Source, make: Make) -> None:
    source.execute("CREATE TABLE orders (id int4 PRIMARY KEY)")
    assert "'order': it does not exist" in missing(make, "order")
    assert "no table matches" in missing(make, "x*")
    assert "schema 'nope'" in missing(make, "orders", schemas=["nope"])
    with pytest.raises(UsageError, match="captures nothing"):
        make("x").options.__class__("a", make("x").options.address).check()
    source.execute("CREATE UNLOGGED TABLE u (id int4 PRIMARY KEY)")
    assert 'ALTER TABLE "public"."u" SET LOGGED' in missing(make, "u")
    assert source.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)


def test_least_privileges(source: Source, log: Log, make: Make, server: Server, database: str, role: str) -> None:
    source.execute("CREATE TABLE orders (id int4 PRIMARY KEY); CREATE TABLE events (n int4)")
    url = server.url(database, role)
    said = missing(make, "orders", "events", url=url)
    assert f'ALTER ROLE "{role}" REPLICATION;' in said
    assert f'GRANT SELECT ON "public"."orders" TO "{role}";' in said
    assert "CREATE PUBLICATION" in said
    # Exactly what it asks for, by an administrator:
    source.execute(f"ALTER ROLE {role} REPLICATION; GRANT SELECT ON orders, events TO {role}")
    said = missing(make, "orders", "events", url=url)
    for line in said.splitlines():
        if "CREATE PUBLICATION" in line:
            source.execute(line.strip().partition(";  --")[0].encode())
    capture = make("orders", "events", url=url)
    catch_up(capture, source)
    source.execute("INSERT INTO orders VALUES (1); INSERT INTO events VALUES (1)")
    catch_up(capture, source)
    assert_same(source, log, capture, ["orders"])


def test_a_role_that_gives_the_right_to_replicate(
    source: Source, make: Make, server: Server, database: str, role: str
) -> None:
    """Amazon's servers know who may replicate by membership, and let nobody have the attribute."""
    source.execute("CREATE TABLE orders (id int4 PRIMARY KEY)")
    assert "REPLICATION" in missing(make, "orders", url=server.url(database, role))
    source.execute(f"CREATE ROLE rds_replication; GRANT rds_replication TO {role}")
    try:
        assert "REPLICATION" not in missing(make, "orders", url=server.url(database, role))
    finally:
        source.execute("DROP ROLE rds_replication")


def test_names_are_quoted(source: Source, log: Log, make: Make) -> None:
    source.execute('CREATE TABLE "We""ird; Tab" ("Group" int4 PRIMARY KEY, "a b" text, "c""d" numeric)')
    source.execute("""INSERT INTO "We""ird; Tab" VALUES (1, 'x', 1.5)""")
    capture = make('We"ird; Tab')
    catch_up(capture, source)
    source.execute("""INSERT INTO "We""ird; Tab" VALUES (2, 'y', 2)""")
    catch_up(capture, source)
    [topic] = [each.name for each in log.topics() if not each.name.endswith("_schema")]
    assert topic.endswith(".We_ird__Tab")
    assert log.table(topic).to_pylist() == [
        {"Group": 1, "a b": "x", 'c"d': "1.5"},
        {"Group": 2, "a b": "y", 'c"d': "2"},
    ]


def test_a_slot_of_somebody_else_is_left_alone(source: Source, make: Make) -> None:
    source.execute("CREATE TABLE orders (id int4 PRIMARY KEY)")
    name = make("orders").options.names.slot
    source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
    assert "which knows nothing of it" in missing(make, "orders")


def test_the_slot_moves_while_captured_tables_are_idle(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE orders (id int4 PRIMARY KEY); CREATE TABLE busy (n int4, t text)")
    capture = make("orders")
    catch_up(capture, source)
    source.execute("INSERT INTO busy SELECT g, repeat('x', 100) FROM generate_series(1, 50000) g")
    source.execute("CHECKPOINT")
    before = log.scan(capture.options.names.topic("public", "orders")).num_rows
    behind = "pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)"
    query = f"SELECT {behind} FROM pg_replication_slots WHERE slot_name = %s".encode()

    def moved(_: object) -> bool:
        row = source.execute(query, (capture.options.names.slot,)).fetchone()
        return row is not None and row[0] < 100_000

    capture.run(moved)
    assert log.scan(capture.options.names.topic("public", "orders")).num_rows == before


def test_status_and_alarms(source: Source, log: Log, make: Make, tmp_path: Path) -> None:
    source.execute("CREATE TABLE orders (id int4 PRIMARY KEY, n int4)")
    capture = make("orders", wal_alarm_bytes=1 << 20, wal_alarm_age=timedelta(0))
    status = PostgresSource(log, capture.options).status
    assert status().phase == "not begun"
    catch_up(capture, source)
    deadline = time.monotonic() + 60
    while status().active:  # the server takes a moment to notice that nobody listens
        assert time.monotonic() < deadline
        time.sleep(0.05)
    found = status()
    assert (found.phase, found.active) == ("streaming", False)
    assert found.alarms == ("no process captures it",)
    source.execute("INSERT INTO orders SELECT g, 0 FROM generate_series(1, 50000) g")
    behind = status()
    assert (behind.bytes_behind or 0) > 1 << 20
    assert any("bytes of WAL for it" in text for text in behind.alarms)
    catch_up(capture, source)
    source.execute("ALTER TABLE orders ALTER n TYPE text; UPDATE orders SET n = 'x' WHERE id = 1")
    catch_up(capture, source)
    assert any("orders is not captured any more" in text for text in status().alarms)
    source.execute("SELECT pg_drop_replication_slot(%s)", (capture.options.names.slot,))
    assert any("slot is missing" in text for text in status().alarms)
