"""Tables of all kinds, and what happens to them while they are captured."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.requests import request_snapshot
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import assert_same, catch_up, log_rows, source_rows

Source = psycopg.Connection[Any]


def history(capture: Capture) -> list[tuple[str, str, str]]:
    rows = capture.log.scan(capture.options.names.history).to_pylist()
    return [(row["relation"], row["event"], row["detail"]) for row in rows]


def test_a_partitioned_table_is_one_topic(source: Source, log: Log, make: Make) -> None:
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


def test_replica_identities(source: Source, log: Log, make: Make) -> None:
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


def test_a_table_without_a_key_is_appended_to(source: Source, log: Log, make: Make) -> None:
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


def counted(source: Source, log: Log, capture: Capture, table: str) -> None:
    """That the topic has exactly as many rows of each content as the table has."""
    rows = log_rows(log, capture.options.names.topic("public", table))
    found = sorted(json.dumps({k: v for k, v in row.items() if k != "_row"}, sort_keys=True) for row in rows)
    expected = sorted(json.dumps(row, sort_keys=True) for row in source_rows(source, f"SELECT * FROM {table}"))
    assert found == expected


def test_a_table_without_a_key_whose_whole_rows_come(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE e (n int4, note text, at date); ALTER TABLE e REPLICA IDENTITY FULL")
    source.execute("INSERT INTO e VALUES (1, 'a'), (1, 'a'), (2, NULL), (NULL, NULL), (NULL, NULL)")
    capture = make("e")
    catch_up(capture, source)
    counted(source, log, capture, "e")
    source.execute("INSERT INTO e VALUES (1, 'a'), (3, 'it''s \\ \"quoted\"')")
    source.execute("UPDATE e SET note = 'b' WHERE ctid = (SELECT min(ctid) FROM e WHERE n = 1)")
    source.execute("DELETE FROM e WHERE ctid = (SELECT max(ctid) FROM e WHERE n IS NULL)")
    catch_up(capture, source)
    counted(source, log, capture, "e")
    with source.transaction():
        source.execute("UPDATE e SET n = n")  # changes nothing
        source.execute("INSERT INTO e SELECT g % 3, 'many' FROM generate_series(1, 100) g")
        source.execute("DELETE FROM e WHERE note = 'many' AND n = 1")
        source.execute("UPDATE e SET n = 7 WHERE note = 'many'")
    catch_up(make("e"), source)  # another process, which has to learn how many there are
    counted(source, log, capture, "e")
    source.execute("INSERT INTO e VALUES (1, 'x', 'infinity'), (1, 'x', '-infinity'), (1, 'x', NULL)")
    source.execute("DELETE FROM e WHERE at = '-infinity'")
    catch_up(capture, source)
    rows = log_rows(log, capture.options.names.topic("public", "e"))
    assert [row["at"] for row in rows if row["note"] == "x"] == [None, None]
    source.execute("DELETE FROM e WHERE at = 'infinity'; TRUNCATE e; INSERT INTO e VALUES (1, 'a')")
    catch_up(capture, source)
    counted(source, log, capture, "e")
    source.execute("DELETE FROM e")
    catch_up(capture, source)
    assert log_rows(log, capture.options.names.topic("public", "e")) == []


def test_large_values_of_counted_rows(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE e (n int4, note text); ALTER TABLE e REPLICA IDENTITY FULL")
    source.execute("ALTER TABLE e ALTER note SET STORAGE EXTERNAL")
    source.execute("INSERT INTO e SELECT g % 2, repeat(md5((g % 3)::text), 1000) FROM generate_series(1, 12) g")
    capture = make("e")
    catch_up(capture, source)
    source.execute("UPDATE e SET n = n + 1 WHERE n = 0")  # the large value is not touched
    source.execute("DELETE FROM e WHERE ctid IN (SELECT ctid FROM e LIMIT 3)")
    catch_up(capture, source)
    counted(source, log, capture, "e")


def test_counted_rows_are_read_again_and_set_right(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE e (n int4, note text); ALTER TABLE e REPLICA IDENTITY FULL")
    source.execute("INSERT INTO e SELECT g % 10, 'x' FROM generate_series(1, 100) g")
    capture = make("e")
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "e")
    [lost] = log.table(topic)["_row"].to_pylist()[:1]
    log.delete(topic, [{"_row": lost}])
    log.append(topic, [{"_row": "0" * 32 + "-1", "n": 99, "note": "not in the database"}])
    records = log.scan(topic).num_rows
    request_snapshot(log, capture.options, "e", purge=True)
    catch_up(capture, source)
    counted(source, log, capture, "e")
    assert log.scan(topic).num_rows == records + 2, "what was right is not written again"
    source.execute("ALTER TABLE e ADD COLUMN more int4; ALTER TABLE e ADD COLUMN given int4 DEFAULT 5")
    source.execute("DELETE FROM e WHERE n = 1; UPDATE e SET more = 1 WHERE n = 2; INSERT INTO e VALUES (1, 'x')")
    catch_up(capture, source)
    counted(source, log, capture, "e")
    source.execute("ALTER TABLE e REPLICA IDENTITY DEFAULT; INSERT INTO e VALUES (1, 'x')")
    catch_up(capture, source)
    table = capture.tables.named("e")
    assert table is not None
    assert "FULL" in str(table.stopped)


def test_columns_come_go_and_grow(source: Source, log: Log, make: Make) -> None:
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


def test_a_change_that_the_log_does_not_allow_stops_one_table(source: Source, log: Log, make: Make) -> None:
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


def test_a_renamed_table_keeps_its_topic(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    capture = make("t*")
    catch_up(capture, source)
    source.execute("ALTER TABLE t RENAME TO t2")
    source.execute("INSERT INTO t2 VALUES (1)")
    catch_up(capture, source)
    assert log_rows(log, capture.options.names.topic("public", "t")) == [{"id": 1}]
    assert ("public.t", "renamed", "public.t is public.t2 now") in history(capture)


def test_a_new_table_that_matches_is_found_and_read(source: Source, log: Log, make: Make) -> None:
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
