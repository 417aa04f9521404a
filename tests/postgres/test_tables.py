"""Tables of all kinds, and what happens to them while they are captured."""

from __future__ import annotations

from typing import Any

import psycopg

import headwater as hw
from headwater.connectors.postgres.capture import Capture
from tests.postgres.conftest import Make
from tests.postgres.oracle import assert_same, catch_up, log_rows

Source = psycopg.Connection[Any]


def history(capture: Capture) -> list[tuple[str, str, str]]:
    rows = capture.log.scan(capture.options.names.history).to_pylist()
    return [(row["relation"], row["event"], row["detail"]) for row in rows]


def test_a_partitioned_table_is_one_topic(source: Source, log: hw.EmbeddedLog, make: Make) -> None:
    source.execute("CREATE TABLE p (id int8, day int4, n text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)")
    source.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
    source.execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)")
    source.execute("INSERT INTO p SELECT g, g % 20, 'x' FROM generate_series(1, 100) g")
    capture = make("*")
    catch_up(capture, source)
    assert_same(source, log, capture, ["p"])
    source.execute("UPDATE p SET n = 'y' WHERE day < 15")
    source.execute("UPDATE p SET day = 19 WHERE day = 1")  # into another partition
    source.execute("CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30)")
    source.execute("INSERT INTO p VALUES (1000, 25, 'new')")
    catch_up(capture, source)
    assert_same(source, log, capture, ["p"])
    assert [topic.name for topic in log.topics() if not topic.name.endswith("_schema")] == [
        capture.options.names.topic("public", "p")
    ]


def test_replica_identities(source: Source, log: hw.EmbeddedLog, make: Make) -> None:
    source.execute("CREATE TABLE d (id int8 PRIMARY KEY, n int4)")
    source.execute("CREATE TABLE f (id int8 PRIMARY KEY, n int4); ALTER TABLE f REPLICA IDENTITY FULL")
    source.execute("CREATE TABLE i (id int8 PRIMARY KEY, code text NOT NULL, n int4)")
    source.execute("CREATE UNIQUE INDEX i_code ON i (code); ALTER TABLE i REPLICA IDENTITY USING INDEX i_code")
    source.execute("CREATE TABLE k (b text, a int4, n int4, PRIMARY KEY (a, b))")
    for table, row in (("d", "g, 0"), ("f", "g, 0"), ("i", "g, 'c' || g, 0"), ("k", "'b' || g, g, 0")):
        source.execute(f"INSERT INTO {table} SELECT {row} FROM generate_series(1, 20) g".encode())
    capture = make("*")
    catch_up(capture, source)
    for table in "dfik":
        source.execute(f"UPDATE {table} SET n = 1".encode())
    source.execute("UPDATE d SET id = 100 WHERE id = 1; UPDATE f SET id = 100 WHERE id = 1")
    source.execute("UPDATE i SET id = 100 WHERE id = 1; UPDATE i SET code = 'z' WHERE id = 2")
    source.execute("UPDATE k SET a = 100 WHERE a = 1")
    for table in "dfi":
        source.execute(f"DELETE FROM {table} WHERE id = 7".encode())
    source.execute("DELETE FROM k WHERE a = 7")
    catch_up(capture, source)
    assert_same(source, log, capture, "dfik")
    assert log.topic(capture.options.names.topic("public", "i")).key == ("code",)
    assert log.topic(capture.options.names.topic("public", "k")).key == ("a", "b")


def test_a_table_without_a_key_is_appended_to(source: Source, log: hw.EmbeddedLog, make: Make) -> None:
    source.execute("CREATE TABLE e (n int4, note text)")
    source.execute("INSERT INTO e VALUES (1, 'a'), (1, 'a')")
    capture = make("e")
    catch_up(capture, source)
    source.execute("INSERT INTO e VALUES (2, 'b')")
    source.execute("UPDATE e SET n = 3 WHERE n = 2")  # still allowed: the table publishes no updates
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "e")
    assert [record.value for record in log.read(topic)] == [
        {"n": 1, "note": "a"},
        {"n": 1, "note": "a"},
        {"n": 2, "note": "b"},
    ]


def test_columns_come_go_and_grow(source: Source, log: hw.EmbeddedLog, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, a int4, b text)")
    source.execute("INSERT INTO t SELECT g, g, 'b' FROM generate_series(1, 50) g")
    capture = make("t")
    catch_up(capture, source)
    with source.transaction():
        source.execute("INSERT INTO t VALUES (51, 1, 'before')")
        source.execute("ALTER TABLE t ADD COLUMN c int4 DEFAULT 7")
        source.execute("INSERT INTO t VALUES (52, 1, 'after', 8)")
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])  # also the rows that got the default without a change of their own
    source.execute("ALTER TABLE t ALTER COLUMN a TYPE int8")
    source.execute("INSERT INTO t VALUES (53, 5000000000, 'wide', 1)")
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])
    source.execute("ALTER TABLE t DROP COLUMN b")
    source.execute("INSERT INTO t VALUES (54, 1, 1)")
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "t")
    rows = {row["id"]: row for row in log_rows(log, topic)}
    assert rows[54] == {"id": 54, "a": 1, "b": None, "c": 1}
    assert rows[53]["b"] == "wide"
    source.execute("ALTER TABLE t RENAME COLUMN c TO d")
    source.execute("UPDATE t SET d = 100 WHERE id = 1")
    catch_up(capture, source)
    assert {row["id"]: row["d"] for row in log_rows(log, topic)} == dict(
        source.execute("SELECT id, d FROM t").fetchall()
    )
    assert ("public.t", "altered", "+ c int4") in history(capture)


def test_a_change_that_the_log_does_not_allow_stops_one_table(source: Source, log: hw.EmbeddedLog, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, a int4); CREATE TABLE u (id int4 PRIMARY KEY)")
    capture = make("t", "u")
    catch_up(capture, source)
    source.execute("ALTER TABLE t ALTER COLUMN a TYPE text")
    source.execute("INSERT INTO t VALUES (1, 'a')")
    source.execute("INSERT INTO u VALUES (1)")
    catch_up(capture, source)
    table = capture.tables.named("t")
    assert table is not None
    assert table.stopped is not None
    assert "'a'" in table.stopped
    assert_same(source, log, capture, ["u"])
    assert [event for name, event, _ in history(capture) if name == "public.t"] == ["found", "altered", "stopped"]


def test_a_renamed_table_keeps_its_topic(source: Source, log: hw.EmbeddedLog, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    capture = make("t*")
    catch_up(capture, source)
    source.execute("ALTER TABLE t RENAME TO t2")
    source.execute("INSERT INTO t2 VALUES (1)")
    catch_up(capture, source)
    assert log_rows(log, capture.options.names.topic("public", "t")) == [{"id": 1}]
    assert ("public.t", "renamed", "public.t is public.t2 now") in history(capture)


def test_a_new_table_that_matches_is_found_and_read(source: Source, log: hw.EmbeddedLog, make: Make) -> None:
    source.execute("CREATE TABLE a (id int4 PRIMARY KEY)")
    capture = make("*")
    catch_up(capture, source)
    source.execute("CREATE TABLE b (id int4 PRIMARY KEY, n int4)")
    source.execute("INSERT INTO b SELECT g, 0 FROM generate_series(1, 100) g")

    def found(capture: Capture) -> bool:
        return capture.tables.named("b") is not None and not capture.tables.incomplete

    capture.run(found)
    source.execute("UPDATE b SET n = 1 WHERE id < 50")
    source.execute("DELETE FROM b WHERE id = 70")
    catch_up(capture, source)
    assert_same(source, log, capture, ["a", "b"])
