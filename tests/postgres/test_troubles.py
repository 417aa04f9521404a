"""What happens to databases in real life, while they are captured."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from headwater.connectors.postgres import applying, incremental, reading, stream
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.requests import request_snapshot
from headwater.connectors.postgres.setup import drop_slot
from headwater.connectors.postgres.source import PostgresSource
from headwater.errors import CaptureDropped, CaptureRefused, DiskFull, UsageError
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import assert_same, catch_up, log_rows, wait_for
from tests.postgres.running import keeping
from tests.postgres.servers import Server
from tests.postgres.test_tables import counted, history

Source = psycopg.Connection[Any]


@contextmanager
def running(capture: Capture) -> Iterator[None]:
    with keeping(capture) as beside:
        beside.wait_until_ready(lambda: False)
        yield
        beside.check()


def test_columns_change_in_the_middle_of_a_transaction(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, a int4); CREATE TABLE u (id int4 PRIMARY KEY)")
    capture = make("t", "u")
    catch_up(capture, source)
    with source.transaction():
        source.execute("INSERT INTO t VALUES (1, 1); INSERT INTO u VALUES (1)")
        source.execute("ALTER TABLE t ADD COLUMN b text DEFAULT 'x'")
        source.execute("INSERT INTO t VALUES (2, 2, 'y')")
        with source.transaction(force_rollback=True):
            source.execute("ALTER TABLE t ADD COLUMN never int4; INSERT INTO t VALUES (9, 9, 'z', 9)")
        source.execute("ALTER TABLE t RENAME COLUMN a TO c; UPDATE t SET c = 7 WHERE id = 1")
        source.execute("ALTER TABLE t ALTER COLUMN c TYPE int8; INSERT INTO t VALUES (3, 5000000000, 'w')")
    catch_up(capture, source)
    rows = {row["id"]: (row["c"], row["b"]) for row in log_rows(log, capture.options.names.topic("public", "t"))}
    assert rows == {1: (7, "x"), 2: (2, "y"), 3: (5000000000, "w")}
    topics = [capture.options.names.topic("public", name) for name in "tu"]
    streamed = {
        record.position for record in log.read(topics) if "xid" in record.headers and record.headers["op"] != "r"
    }
    assert len(streamed) == 1, "one transaction, one commit"


def test_hundreds_of_columns(source: Source, log: Log, make: Make) -> None:
    columns = ", ".join(f"c{n} int4" for n in range(600))
    source.execute(f"CREATE TABLE wide (id int4 PRIMARY KEY, {columns})".encode())
    source.execute("INSERT INTO wide (id, c0, c599) SELECT g, g, -g FROM generate_series(1, 100) g")
    source.execute(f"CREATE TABLE whole ({columns}); ALTER TABLE whole REPLICA IDENTITY FULL".encode())
    source.execute("INSERT INTO whole (c0, c599) SELECT g % 5, 1 FROM generate_series(1, 100) g")
    capture = make("*")
    catch_up(capture, source)
    source.execute("UPDATE wide SET c300 = id; DELETE FROM wide WHERE id = 5; UPDATE whole SET c1 = 1 WHERE c0 = 3")
    catch_up(capture, source)
    assert_same(source, log, capture, ["wide"])
    counted(source, log, capture, "whole")
    with running(capture):
        assert all(each.equal for each in PostgresSource(log, capture.options).audit())


def test_huge_values(source: Source, log: Log, make: Make, share: int) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, doc text, n int4)")
    times = 5_000_000 // share
    source.execute("INSERT INTO t VALUES (1, repeat('snapshot', %s), 0)", (times,))
    capture = make("t")
    catch_up(capture, source)
    source.execute("INSERT INTO t VALUES (2, repeat('streamed', %s), 0)", (times,))
    catch_up(capture, source)
    source.execute("UPDATE t SET n = 1")
    catch_up(capture, source)
    rows = log.table(capture.options.names.topic("public", "t")).to_pylist()
    assert {(row["id"], row["doc"][:8], len(row["doc"]), row["n"]) for row in rows} == {
        (1, "snapshot", 8 * times, 1),
        (2, "streamed", 8 * times, 1),
    }


def test_a_special_value_that_an_update_did_not_touch_is_kept(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, n int4, grid int4[], note text)")
    source.execute("ALTER TABLE t ALTER grid SET STORAGE EXTERNAL")
    grid = "(SELECT array_agg(ARRAY[g, g]) FROM generate_series(1, 2000) g)"
    source.execute(f"INSERT INTO t VALUES (1, 0, {grid})".encode())
    capture = make("t")
    catch_up(capture, source)
    source.execute(f"INSERT INTO t VALUES (2, 0, {grid})".encode())
    source.execute("UPDATE t SET n = 1")
    catch_up(capture, source)
    source.execute("UPDATE t SET n = 2")
    with source.transaction():
        source.execute(f"INSERT INTO t VALUES (3, 0, {grid})".encode())
        source.execute("UPDATE t SET n = 2; UPDATE t SET id = 4 WHERE id = 3")
    with running(make("t")):
        [found] = PostgresSource(log, capture.options).audit()
        assert found.equal


def test_keys_that_a_column_can_not_hold(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (day date PRIMARY KEY, n int4); CREATE TABLE u (id int4 PRIMARY KEY)")
    source.execute("INSERT INTO t VALUES ('2024-01-01', 1)")
    capture = make("t", "u")
    catch_up(capture, source)
    source.execute("INSERT INTO t VALUES ('infinity', 2); INSERT INTO u VALUES (1)")
    catch_up(capture, source)
    table = capture.tables.named("t")
    assert table is not None
    assert "infinity" in str(table.stopped), "a key of null would stand for many rows"
    assert_same(source, log, capture, ["u"])
    other = make("t", "u", name="other")
    catch_up(other, source)
    assert [table.name for table in other.tables.active()] == ["public.u"]


def test_an_enum_gets_another_value(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TYPE mood AS ENUM ('sad'); CREATE TABLE t (id int4 PRIMARY KEY, m mood)")
    source.execute("INSERT INTO t VALUES (1, 'sad')")
    capture = make("t")
    catch_up(capture, source)
    source.execute("ALTER TYPE mood ADD VALUE 'fine'")
    source.execute("INSERT INTO t VALUES (2, 'fine')")
    source.execute("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
    catch_up(capture, source)
    assert [row["m"] for row in log_rows(log, capture.options.names.topic("public", "t"))] == ["sad", "fine"]


def test_generated_columns_and_keys(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, a int4, twice int4 GENERATED ALWAYS AS (a * 2) STORED)")
    source.execute("INSERT INTO t VALUES (1, 1)")
    capture = make("t")
    catch_up(capture, source)
    source.execute("INSERT INTO t VALUES (2, 2); UPDATE t SET a = 5 WHERE id = 1")
    catch_up(capture, source)
    rows = log_rows(log, capture.options.names.topic("public", "t"))
    assert sorted(rows, key=lambda row: row["id"]) == [{"id": 1, "a": 5}, {"id": 2, "a": 2}]
    source.execute("CREATE TABLE g (a int4, k int4 GENERATED ALWAYS AS (a + 1) STORED PRIMARY KEY)")
    with pytest.raises(CaptureRefused, match="column k is generated"):
        make("g", name="other").prepare()


def test_inheritance_and_partitions_that_come_with_rows(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE parent (id int4 PRIMARY KEY, n int4)")
    source.execute("CREATE TABLE child (more text, PRIMARY KEY (id)) INHERITS (parent)")
    source.execute("INSERT INTO parent VALUES (1, 1); INSERT INTO child VALUES (2, 2, 'x')")
    source.execute("CREATE TABLE p (id int4, n int4, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    source.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100)")
    source.execute("INSERT INTO p SELECT g, 0 FROM generate_series(1, 50) g")
    source.execute("CREATE TABLE q (n int4) PARTITION BY LIST (n); ALTER TABLE q REPLICA IDENTITY FULL")
    source.execute("CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1)")
    with pytest.raises(CaptureRefused, match="ALTER TABLE q1 REPLICA IDENTITY FULL"):
        make("q", name="other").prepare()
    source.execute("ALTER TABLE q1 REPLICA IDENTITY FULL; INSERT INTO q VALUES (1), (1)")
    capture = make("parent", "child", "p", "q")
    catch_up(capture, source)
    source.execute("UPDATE parent SET n = n + 1")  # of both
    source.execute(
        "CREATE TABLE p2 (id int4 PRIMARY KEY, n int4); INSERT INTO p2 SELECT g, 9 FROM generate_series(100, 150) g"
    )
    source.execute("ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (100) TO (200)")
    source.execute(
        "CREATE TABLE q2 (n int4); ALTER TABLE q2 REPLICA IDENTITY FULL; INSERT INTO q2 VALUES (2), (2), (2)"
    )
    source.execute("ALTER TABLE q ATTACH PARTITION q2 FOR VALUES IN (2); DELETE FROM q WHERE ctid = '(0,1)' AND n = 1")
    source.execute("UPDATE p SET n = 10 WHERE id = 120")

    def settled(_: object = None) -> bool:
        return len(log_rows(log, capture.options.names.topic("public", "p"))) == 101

    capture.run(settled)
    catch_up(capture, source)
    assert_same(source, log, capture, ["p", "child"])
    counted(source, log, capture, "q")
    assert log_rows(log, capture.options.names.topic("public", "parent")) == [{"id": 1, "n": 2}]
    source.execute("ALTER TABLE p DETACH PARTITION p1")
    capture.run(lambda _: len(log_rows(log, capture.options.names.topic("public", "p"))) == 51)
    catch_up(capture, source)
    assert_same(source, log, capture, ["p"])


def test_a_table_is_dropped_and_made_again(source: Source, log: Log, make: Make) -> None:
    source.execute(
        "CREATE TABLE t (id int4 PRIMARY KEY, n int4); INSERT INTO t SELECT g, 0 FROM generate_series(1, 50) g"
    )
    source.execute("CREATE TABLE u (id int4 PRIMARY KEY)")
    capture = make("*")
    catch_up(capture, source)
    source.execute("UPDATE t SET n = 5 WHERE id = 1")
    source.execute("DROP TABLE t")
    capture.run(lambda _: ("public.t", "stopped", "The table was dropped.") in history(capture))
    kept = {row["id"]: row["n"] for row in log_rows(log, capture.options.names.topic("public", "t"))}
    assert kept[1] == 5, "what was changed before is there"
    status = PostgresSource(log, capture.options).status()
    assert [table.state for table in status.tables if table.name == "public.t"] == ["dropped"]
    assert not [text for text in status.alarms if "public.t" in text]
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, n int4, more text); INSERT INTO t VALUES (7, 1, 'x')")
    catch_up(capture, source)
    capture.run(lambda _: len(log_rows(log, capture.options.names.topic("public", "t"))) == 1)
    source.execute("INSERT INTO t VALUES (8, 1, 'y')")
    catch_up(capture, source)
    assert_same(source, log, capture, ["t", "u"])


def test_a_table_is_taken_out_of_the_publication(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); CREATE TABLE u (id int4 PRIMARY KEY)")
    capture = make("t", "u")
    catch_up(capture, source)
    source.execute(f"ALTER PUBLICATION {capture.options.names.publication} DROP TABLE t".encode())
    source.execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
    capture.run(lambda _: any(event == "published again" for _, event, _ in history(capture)))
    catch_up(capture, source)
    assert_same(source, log, capture, ["t", "u"])


def test_the_publication_is_dropped(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    capture = make("t")
    catch_up(capture, source)
    source.execute(f"DROP PUBLICATION {capture.options.names.publication}".encode())
    source.execute("INSERT INTO t VALUES (1)")
    capture.run(lambda _: any(event == "slot lost" for _, event, _ in history(capture)))
    source.execute("INSERT INTO t VALUES (2)")
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])
    name = capture.options.names.publication
    source.execute(f"DROP PUBLICATION {name}".encode())
    source.execute("INSERT INTO t VALUES (3)")
    source.execute(f"CREATE PUBLICATION {name} FOR TABLE t WITH (publish_via_partition_root = true)".encode())
    catch_up(make("t"), source)  # which was not there meanwhile
    assert_same(source, log, capture, ["t"])


def test_a_publication_that_leaves_something_out_is_refused(source: Source, server: Server, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, n int4)")
    capture = make("t")
    name = capture.options.names.publication
    source.execute(f"CREATE PUBLICATION {name} FOR TABLE t WITH (publish = 'insert')".encode())
    with pytest.raises(CaptureRefused) as refused:
        capture.prepare()
    [missing] = refused.value.missing
    source.execute(missing.remedy.encode())
    if source.info.server_version >= 150_000:
        source.execute(f"ALTER PUBLICATION {name} SET TABLE t (id) WHERE (id > 5)".encode())
        with pytest.raises(CaptureRefused) as partly:
            capture.prepare()
        [missing] = partly.value.missing
        source.execute(missing.remedy.encode())
    capture.prepare()


def test_tables_whose_topics_would_be_the_same(source: Source, log: Log, make: Make) -> None:
    source.execute('CREATE TABLE "a b" (id int4 PRIMARY KEY); CREATE TABLE a_b (id int4 PRIMARY KEY)')
    with pytest.raises(CaptureRefused, match=r"is that of public\.a b"):
        make("*").prepare()
    capture = make("a_b", "a?b")
    source.execute('ALTER TABLE "a b" RENAME TO "a c"')
    catch_up(capture, source)
    source.execute('CREATE TABLE "a-b" (id int4 PRIMARY KEY); CREATE TABLE "a.b" (id int4 PRIMARY KEY)')
    assert_same(source, log, capture, ["a_b"])


def test_two_captures_of_one_source(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    said: list[str] = []
    first, second = make("t"), make("t")
    first._say = second._say = said.append
    topic = first.options.names.topic("public", "t")
    with keeping(first, second) as both:
        both.wait_until_ready(lambda: False)
        source.execute("INSERT INTO t SELECT generate_series(1, 100)")
        wait_for(lambda: log.scan(topic).num_rows == 100)
        wait_for(lambda: any("Another process captures" in text for text in said))
        busy = first if first.applier is not None else second
        busy.stop()  # the other one takes over
        source.execute("INSERT INTO t SELECT generate_series(101, 200)")
        wait_for(lambda: log.scan(topic).num_rows == 200)
        both.check()
    assert_same(source, log, first, ["t"])


def test_a_drop_ends_the_capture_that_runs(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); INSERT INTO t VALUES (1)")
    capture = make("t")
    with keeping(capture) as beside:
        beside.wait_until_ready(lambda: False)
        wait_for(lambda: PostgresSource(log, capture.options).status().active)
        PostgresSource(log, capture.options).drop()
        wait_for(lambda: beside.failure is not None)
        with pytest.raises(CaptureDropped):
            beside.check()
    assert source.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
    catch_up(make("t"), source)  # starts over
    assert_same(source, log, capture, ["t"])


def test_the_server_is_restarted(source: Source, log: Log, make: Make, server: Server, database: str) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    capture = make("t")
    with running(capture):
        for round_ in range(3):
            with server.connect(database) as connection:
                connection.execute(
                    "INSERT INTO t SELECT generate_series(%s::int4, %s::int4)", (round_ * 100, round_ * 100 + 99)
                )
            server.stop()
            server.start()
        topic = capture.options.names.topic("public", "t")
        wait_for(lambda: log.scan(topic).num_rows == 300)


def test_a_stopped_table_is_taken_up_again(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, a int4); INSERT INTO t VALUES (1, 1), (2, 2)")
    capture = make("t")
    catch_up(capture, source)
    source.execute("ALTER TABLE t ALTER a TYPE text; UPDATE t SET a = 'x' WHERE id = 1; DELETE FROM t WHERE id = 2")
    catch_up(capture, source)
    of = PostgresSource(log, capture.options)
    with pytest.raises(CaptureRefused, match="type"):
        of.resume("t")
    source.execute("ALTER TABLE t ALTER a TYPE int4 USING 7; INSERT INTO t VALUES (3, 3)")
    with running(make("t")):
        of.resume("t")
        topic = capture.options.names.topic("public", "t")
        wait_for(lambda: sorted(row["id"] for row in log_rows(log, topic)) == [1, 3])
        source.execute("INSERT INTO t VALUES (4, 4)")
        wait_for(lambda: len(log_rows(log, topic)) == 3)
    assert_same(source, log, capture, ["t"])


def test_a_table_is_taken_up_again_while_a_capture_begins(
    source: Source, log: Log, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, a int4); INSERT INTO t VALUES (1, 1)")
    capture = make("t")
    catch_up(capture, source)
    source.execute("ALTER TABLE t ALTER a TYPE text; UPDATE t SET a = 'x'")
    catch_up(capture, source)
    source.execute("ALTER TABLE t ALTER a TYPE int4 USING 7; INSERT INTO t VALUES (2, 7)")
    asked = [PostgresSource(log, capture.options)]

    class Late(incremental.Incremental):
        """Knows of the jobs that there are now, and of the tables as they were before."""

        def __init__(self, *arguments: Any) -> None:
            if asked:
                asked.pop().resume("t")
            super().__init__(*arguments)

    monkeypatch.setattr(stream, "Incremental", Late)
    with running(make("t")):
        topic = capture.options.names.topic("public", "t")
        wait_for(lambda: {row["id"]: row["a"] for row in log_rows(log, topic)} == {1: 7, 2: 7})


def test_a_condition_that_fails(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); INSERT INTO t VALUES (0), (1)")
    capture = make("t")
    catch_up(capture, source)
    with pytest.raises(UsageError, match='"nope" does not exist'):
        request_snapshot(log, capture.options, "t", where="nope = 1")
    request_snapshot(log, capture.options, "t", where="1 / id > 0")
    source.execute("INSERT INTO t VALUES (2)")
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])
    assert [detail for _, event, detail in history(capture) if event == "snapshot failed" and "zero" in detail]


def test_limits_for_people_do_not_end_a_snapshot(source: Source, log: Log, make: Make, database: str) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, note text)")
    source.execute("INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 50000) g")
    limits = dict.fromkeys(["statement_timeout", "idle_in_transaction_session_timeout"], "'20ms'")
    limits |= {"datestyle": "'German, DMY'", "timezone": "'Asia/Kathmandu'", "bytea_output": "escape"}
    if source.info.server_version >= 170_000:
        # It cannot be lifted before the first query, so that has to fit.
        limits["transaction_timeout"] = "'1s'"
    for name, value in limits.items():
        source.execute(f"ALTER DATABASE {database} SET {name} = {value}".encode())
    capture = make("t")
    catch_up(capture, source)
    assert log.table(capture.options.names.topic("public", "t")).num_rows == 50_000


def test_many_tables(source: Source, log: Log, make: Make, share: int) -> None:
    tables = 300 // share
    with source.transaction():
        for number in range(tables):
            columns = ", ".join(f"column_{n} int4" for n in range(20))
            source.execute(f"CREATE TABLE table_{number} (id int4 PRIMARY KEY, {columns})".encode())
            source.execute(f"INSERT INTO table_{number} VALUES (2)".encode())
    capture = make("table_*")
    catch_up(capture, source)
    with source.transaction():
        for number in range(0, tables, 10):
            source.execute(f"INSERT INTO table_{number} VALUES (1)".encode())
    catch_up(capture, source)
    assert_same(source, log, capture, ["table_7", "table_50", f"table_{tables - 1}"])
    assert len(list(capture.tables.active())) == tables
    drop_slot(source, capture.options)
    again = make("table_*")
    catch_up(again, source)
    assert_same(source, log, again, ["table_7", "table_50"])


def test_a_full_disk_loses_nothing(source: Source, log: Log, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); INSERT INTO t VALUES (1)")
    capture = make("t")
    catch_up(capture, source)
    source.execute("INSERT INTO t SELECT generate_series(2, 1000)")
    assert isinstance(log, EmbeddedLog)
    storage = log._tails._storage

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write", full)
        with pytest.raises(DiskFull):
            capture.run()
    catch_up(make("t"), source)
    assert_same(source, log, capture, ["t"])
    assert log.scan(capture.options.names.topic("public", "t")).num_rows == 1000


def test_a_session_in_the_way(source: Source, log: Log, make: Make, server: Server, database: str) -> None:
    """A transaction that runs for long delays the beginning; changes that it makes are there, once."""
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); CREATE TABLE u (id int4 PRIMARY KEY, n int4)")
    source.execute("INSERT INTO u VALUES (1, 1)")
    capture = make("t", "u")
    with server.connect(database) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (1)")
        waiting, said = make("t", "u"), list[str]()
        waiting._bootstrap._say = said.append
        with keeping(waiting) as beside:
            wait_for(lambda: any("is waiting for transactions" in text for text in said))
        assert beside.failure is None, "who does not want to wait, can end it"
        thread = threading.Thread(target=catch_up, args=(capture, source))
        thread.start()
        time.sleep(1)
        source.execute("INSERT INTO t VALUES (2); ALTER TABLE u DROP COLUMN n")  # which was there when all was checked
        other.execute("COMMIT")
        thread.join()
    catch_up(capture, source)
    assert_same(source, log, capture, ["t", "u"])
    assert log.scan(capture.options.names.topic("public", "t")).num_rows == 2


def test_somebody_drops_a_topic(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); CREATE TABLE e (n int4)")
    source.execute("INSERT INTO t VALUES (1), (2); INSERT INTO e VALUES (1), (1)")
    capture = make("t", "e")
    catch_up(capture, source)
    topics = {name: capture.options.names.topic("public", name) for name in "te"}
    for topic in topics.values():
        log.drop(topic)
    source.execute("INSERT INTO t VALUES (3); INSERT INTO e VALUES (2)")
    catch_up(make("t", "e"), source)
    assert_same(source, log, capture, ["t"])
    assert sorted(log.scan(topics["e"])["n"].to_pylist()) == [1, 1, 2]
    log.drop(topics["t"])
    log.drop(capture.options.names.history)
    capture = make("t", "e")
    capture.run(lambda _: ("public.t", "topic recreated", "it was dropped") in history(capture))
    source.execute("DELETE FROM t WHERE id = 1; INSERT INTO e VALUES (3)")
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])
    assert sorted(log.scan(topics["e"])["n"].to_pylist()) == [1, 1, 2, 3]


def test_a_partition_is_emptied_by_itself(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE p (id int4 PRIMARY KEY, n int4) PARTITION BY RANGE (id)")
    source.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100)")
    source.execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200)")
    source.execute("INSERT INTO p SELECT g, 0 FROM generate_series(1, 199) g")
    capture = make("p")
    catch_up(capture, source)
    source.execute("TRUNCATE p1; INSERT INTO p VALUES (5, 5)")  # PostgreSQL does not send it
    capture.run(lambda _: len(log_rows(log, capture.options.names.topic("public", "p"))) == 101)
    catch_up(capture, source)
    assert_same(source, log, capture, ["p"])
    assert ("public.p", "partitions", "0 came, 0 went, 1 rewritten") in history(capture)
    source.execute("TRUNCATE p; INSERT INTO p VALUES (7, 7)")
    catch_up(capture, source)
    assert_same(source, log, capture, ["p"])


def test_a_repair_that_is_interrupted_is_tried_again(
    source: Source, log: Log, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); INSERT INTO t VALUES (1)")
    capture = make("t")
    catch_up(capture, source)
    source.execute("INSERT INTO t VALUES (2); DELETE FROM t WHERE id = 1")
    drop_slot(source, capture.options)
    again, tries = make("t"), list[str]()
    repair, of = again._new_slot, PostgresSource(log, capture.options)

    def fail() -> Any:
        tries.append("")
        if len(tries) == 1:
            raise capture.options.address.unavailable(OSError("gone"))
        if len(tries) == 2:
            of.snapshot("t")  # somebody asks for one meanwhile
        return repair()

    monkeypatch.setattr(again, "_new_slot", fail)
    catch_up(again, source)
    assert len(tries) == 3
    assert_same(source, log, again, ["t"])


def test_a_drop_while_a_lost_slot_is_repaired(
    source: Source, log: Log, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    capture = make("t")
    catch_up(capture, source)
    drop_slot(source, capture.options)
    again = make("t")
    repair = again._new_slot

    def dropped() -> Any:
        place = repair()
        PostgresSource(log, capture.options).drop()
        return place

    monkeypatch.setattr(again, "_new_slot", dropped)
    with pytest.raises(CaptureDropped):
        again.run()
    slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    assert source.execute(slots, (capture.options.names.slot,)).fetchone() == (0,)


def test_a_database_that_was_restored(source: Source, log: Log, make: Make) -> None:
    """Its tables have other numbers, and some of them those that others had: the names count."""
    source.execute("CREATE TABLE a (id int4 PRIMARY KEY, n int4); CREATE TABLE b (id int4 PRIMARY KEY, n int4)")
    source.execute("INSERT INTO a VALUES (1, 1), (2, 1); INSERT INTO b VALUES (2, 2), (3, 2)")
    capture = make("a", "b")
    catch_up(capture, source)
    drop_slot(source, capture.options)
    source.execute("ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b")
    again = make("a", "b")
    again.run(lambda _: len(list(again.tables.active())) == 2 and not again.tables.incomplete)
    catch_up(again, source)
    source.execute("INSERT INTO a VALUES (4, 4); DELETE FROM b WHERE id = 1")
    catch_up(again, source)
    assert_same(source, log, again, ["a", "b"])


def test_the_only_publication_is_dropped(source: Source, log: Log, make: Make, server: Server, database: str) -> None:
    """By a user who may not make one: what is missing is said, and not that the server does not answer."""
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    role = f"r_{database}"
    source.execute(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON t TO {role}")
    try:
        capture = make("t", url=server.url(database, role))
        name = capture.options.names.publication
        create = f"CREATE PUBLICATION {name} FOR TABLE t WITH (publish_via_partition_root = true)"
        source.execute(create.encode())
        catch_up(capture, source)
        source.execute(f"DROP PUBLICATION {name}".encode())
        source.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(CaptureRefused, match="CREATE PUBLICATION"):
            make("t", url=server.url(database, role)).run()
        source.execute(create.encode())
        catch_up(make("t", url=server.url(database, role)), source)
        assert_same(source, log, capture, ["t"])
    finally:
        source.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_table_that_can_not_be_read_stops_alone(
    source: Source, log: Log, make: Make, server: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "POLL_SECONDS", 0.01)
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); CREATE TABLE u (id int4 PRIMARY KEY)")
    role = f"r_{database}"
    source.execute(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON t, u TO {role}")
    try:
        capture = make("t", "u", url=server.url(database, role))
        name = capture.options.names.publication
        source.execute(f"CREATE PUBLICATION {name} FOR TABLE t, u WITH (publish_via_partition_root = true)".encode())
        catch_up(capture, source)
        source.execute(f"INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); REVOKE SELECT ON t FROM {role}")
        request_snapshot(log, capture.options, "t")
        catch_up(capture, source)
        table = capture.tables.named("t")
        assert table is not None
        assert "permission denied" in str(table.stopped)
        with pytest.raises(CaptureRefused, match="permission denied"):
            request_snapshot(log, capture.options, "t")
        assert_same(source, log, capture, ["u"])
    finally:
        source.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.parametrize(
    "later", ["DROP TABLE t", "ALTER TABLE t RENAME TO other", "ALTER TABLE t DROP COLUMN doc", "SELECT 1"]
)
def test_a_value_that_was_not_sent_of_a_row_that_the_log_does_not_have(
    source: Source, log: Log, make: Make, later: str
) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, n int4, doc text); CREATE TABLE u (id int4 PRIMARY KEY)")
    source.execute("ALTER TABLE t ALTER doc SET STORAGE EXTERNAL; INSERT INTO t VALUES (1, 0, repeat('x', 5000))")
    capture = make("t*", "u")
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "t")
    log.delete(topic, [{"id": 1}])
    source.execute("UPDATE t SET n = 1")
    source.execute(later.encode())
    source.execute("INSERT INTO u VALUES (1)")
    catch_up(capture, source)
    assert_same(source, log, capture, ["u"])
    if later == "SELECT 1":
        assert_same(source, log, capture, ["t"])


def test_a_condition_and_a_column_with_a_default(source: Source, log: Log, make: Make) -> None:
    """A snapshot of some rows that waits does not stand for the one of all rows that a new column needs."""
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10)")
    capture = make("t")
    catch_up(capture, source)
    request_snapshot(log, capture.options, "t", where="id < 3")
    source.execute("ALTER TABLE t ADD COLUMN c int4 DEFAULT 7; INSERT INTO t VALUES (11)")
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])


def test_large_values_put_back_into_a_large_transaction(
    source: Source, log: Log, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "PUT_BACK_ROWS", 7)
    monkeypatch.setattr(applying, "PUT_BACK_BYTES", 30_000)
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, n int4, doc text)")
    source.execute("ALTER TABLE t ALTER doc SET STORAGE EXTERNAL")
    source.execute("INSERT INTO t SELECT g, 0, repeat(md5(g::text), 100) FROM generate_series(1, 100) g")
    capture = make("t")
    catch_up(capture, source)
    with source.transaction():
        source.execute("ALTER TABLE t ADD COLUMN more int4")  # so that it is taken alone
        source.execute("UPDATE t SET n = 1; UPDATE t SET id = id + 1000 WHERE id % 3 = 0; UPDATE t SET n = 2")
    for number in range(50):
        source.execute("UPDATE t SET n = %s WHERE id %% 5 = %s", (number, number % 5))
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])
