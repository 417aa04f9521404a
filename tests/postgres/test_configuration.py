"""A source that is configured again: tables that it names by now, and tables that it names no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import headwater as hw
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.source import PostgresSource
from headwater.connectors.postgres.tables import REMOVED
from headwater.errors import CaptureRefused
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import assert_same, catch_up, log_rows
from tests.postgres.servers import Server
from tests.postgres.test_tables import history

Source = psycopg.Connection[Any]


@pytest.fixture
def role(source: Source, database: str) -> Iterator[str]:
    """A user who may replicate, and nothing else."""
    name = f"r_{database}"
    source.execute(f"CREATE ROLE {name} LOGIN REPLICATION")
    yield name
    source.execute(f"REASSIGN OWNED BY {name} TO postgres; DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


def states(log: Log, capture: Capture) -> dict[str, str]:
    return {table.name: table.state for table in PostgresSource(log, capture.options).status().tables}


def test_a_table_that_is_not_named_any_more(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, n int4); CREATE TABLE u (id int4 PRIMARY KEY)")
    source.execute("INSERT INTO t SELECT g, 0 FROM generate_series(1, 10) g")
    catch_up(make("t", "u"), source)
    source.execute("INSERT INTO t VALUES (11, 0); INSERT INTO u VALUES (1)")
    without = make("u")
    catch_up(without, source)
    topic = without.options.names.topic("public", "t")
    assert states(log, without) == {"public.t": "removed", "public.u": "streaming"}
    assert not [text for text in PostgresSource(log, without.options).status().alarms if "public.t" in text]
    assert ("public.t", "stopped", REMOVED) in history(without)
    assert len(log_rows(log, topic)) == 10, "the topic stays as it was"
    published = "SELECT tablename FROM pg_publication_tables WHERE pubname = %s"
    assert source.execute(published, (without.options.names.publication,)).fetchall() == [("u",)]
    with pytest.raises(CaptureRefused, match="among the tables of the source"):
        PostgresSource(log, without.options).resume("t")
    source.execute("DELETE FROM t WHERE id < 5; UPDATE t SET n = 1; INSERT INTO u VALUES (2)")
    again = make("t", "u")
    again.run(lambda capture: states(log, capture)["public.t"] == "streaming" and not capture.tables.incomplete)
    catch_up(again, source)
    assert_same(source, log, again, ["t", "u"])


def test_a_renamed_table_is_still_named(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    catch_up(make("t"), source)
    source.execute("ALTER TABLE t RENAME TO other; INSERT INTO other VALUES (1)")
    catch_up(make("t"), source)
    source.execute("INSERT INTO other VALUES (2)")
    capture = make("t")
    catch_up(capture, source)
    assert log_rows(log, capture.options.names.topic("public", "t")) == [{"id": 1}, {"id": 2}]


def test_a_name_that_is_added_has_to_be_there(
    source: Source, log: Log, make: Make, server: Server, database: str, role: str
) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); CREATE TABLE dropped (id int4 PRIMARY KEY)")
    source.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    url = server.url(database, role)
    first = make("t", "dropped", url=url)
    names = first.options.names
    source.execute(
        f"CREATE PUBLICATION {names.publication} FOR TABLE t, dropped WITH (publish_via_partition_root = true)".encode()
    )
    catch_up(first, source)
    with pytest.raises(CaptureRefused, match="'custmers': it does not exist"):
        make("t", "dropped", "custmers", url=url).run()
    source.execute("CREATE TABLE customers (id int4 PRIMARY KEY)")
    with pytest.raises(CaptureRefused) as refused:
        make("t", "dropped", "customers", url=url).run()
    source.execute("DROP TABLE dropped")
    for lack in refused.value.missing:
        source.execute(lack.remedy.partition(";  --")[0].encode())
    source.execute("INSERT INTO customers VALUES (1)")
    # The table is its own, but not the publication:
    source.execute(f"CREATE TABLE own (id int4 PRIMARY KEY); ALTER TABLE own OWNER TO {role}".encode())
    with pytest.raises(CaptureRefused, match="as the owner of"):
        make("t", "dropped", "customers", "own", url=url).run()
    capture = make("t", "dropped", "customers", url=url)
    capture.run(lambda _: "public.customers" in states(log, capture) and not capture.tables.incomplete)
    catch_up(capture, source)
    assert_same(source, log, capture, ["customers"])
    without = make("t", url=url)
    catch_up(without, source)
    assert states(log, without)["public.customers"] == "removed"  # and it stays in the publication


def test_a_new_table_that_can_not_be_captured_stops_no_other(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE a1 (id int4 PRIMARY KEY); CREATE TABLE named (id int4 PRIMARY KEY)")
    capture = make("a*", "named")
    said: list[str] = []
    capture._watcher._say = said.append
    catch_up(capture, source)
    source.execute("DROP TABLE named; CREATE UNLOGGED TABLE a2 (id int4 PRIMARY KEY)")
    source.execute("CREATE TABLE a3 (id int4 PRIMARY KEY); INSERT INTO a3 VALUES (1)")
    capture.run(lambda _: capture.tables.named("a3") is not None and not capture.tables.incomplete)
    catch_up(capture, source)
    assert_same(source, log, capture, ["a1", "a3"])
    assert len([text for text in said if "SET LOGGED" in text]) == 1
    assert capture.tables.named("a2") is None


def test_keys_that_name_no_row_in_the_stream(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE late (id int4 PRIMARY KEY DEFERRABLE, n int4)")
    source.execute("CREATE TABLE more (id int4, n int4, PRIMARY KEY (id) INCLUDE (n))")
    source.execute("INSERT INTO late VALUES (1, 1); INSERT INTO more VALUES (1, 1)")
    capture = make("late", "more")
    catch_up(capture, source)
    source.execute("UPDATE late SET n = 2; INSERT INTO late VALUES (2, 2)")  # published, it would be refused
    source.execute("UPDATE more SET n = 2; INSERT INTO more VALUES (2, 2)")
    catch_up(capture, source)
    late = [record.value for record in log.read(capture.options.names.topic("public", "late"))]
    assert late == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]
    assert log.topic(capture.options.names.topic("public", "more")).key == ("id",)
    assert_same(source, log, capture, ["more"])


def test_a_schema_that_may_not_be_used(source: Source, make: Make, server: Server, database: str, role: str) -> None:
    source.execute("CREATE SCHEMA billing; CREATE TABLE billing.orders (id int4 PRIMARY KEY)")
    source.execute(f"GRANT SELECT ON billing.orders TO {role}")
    with pytest.raises(CaptureRefused, match=f'GRANT USAGE ON SCHEMA "billing" TO "{role}"'):
        make("billing.orders", url=server.url(database, role)).prepare()


def test_an_outbox_that_can_not_work(source: Source, make: Make, server: Server, database: str, role: str) -> None:
    source.execute("CREATE TABLE outbox (topic text, body text); CREATE TABLE t (id int4 PRIMARY KEY)")
    with pytest.raises(CaptureRefused) as refused:
        make("t", outbox="outbox", outbox_delete=True).prepare()
    assert [lack.what.partition(" ")[0] for lack in refused.value.missing] == ["column", "a"]
    for lack in refused.value.missing:
        source.execute(lack.remedy.encode())
    source.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    with pytest.raises(CaptureRefused, match=r'GRANT DELETE ON "public"\."outbox"'):
        make("t", outbox="outbox", outbox_delete=True, url=server.url(database, role)).prepare()
    make("t", outbox="outbox", outbox_delete=True).prepare()


def test_one_pattern_needs_no_list(source: Source, server: Server, database: str, log: Log) -> None:
    source.execute("CREATE TABLE a (id int4 PRIMARY KEY); CREATE TABLE b (id int4 PRIMARY KEY)")
    with hw.App("shop", log=log) as app:
        assert len(app.postgres(server.url(database), tables="*").check()) == 2
        assert len(app.postgres(server.url(database), schemas="public", name="other").check()) == 2
