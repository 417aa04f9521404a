"""The stream: every transaction a commit, in order, once."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from headwater.log.embedded.position import commit_of
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import assert_same, catch_up, log_rows
from tests.postgres.running import keeping

Source = psycopg.Connection[Any]


def commits(log: Log, *topics: str) -> list[list[tuple[str, Any]]]:
    """The records of each commit, in order: topic without the source, and the row or the key of a tombstone."""
    found: dict[int, list[tuple[str, Any]]] = {}
    for record in log.read(topics):
        value = dict(record.value) if record.value is not None else ("gone", record.key)
        found.setdefault(commit_of(record.position), []).append((record.topic.rpartition(".")[2], value))
    return [found[number] for number in sorted(found)]


def test_rows_that_are_there_and_rows_that_come(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE orders (id int8 PRIMARY KEY, amount numeric(10,2), note text)")
    source.execute("INSERT INTO orders SELECT g, g * 1.5, 'n' || g FROM generate_series(1, 1000) g")
    capture = make("orders")
    catch_up(capture, source)
    assert_same(source, log, capture, ["orders"])
    source.execute("INSERT INTO orders VALUES (1001, NULL, NULL)")
    source.execute("UPDATE orders SET amount = 7, note = 'changed' WHERE id BETWEEN 10 AND 20")
    source.execute("UPDATE orders SET id = 5000 WHERE id = 30")
    source.execute("DELETE FROM orders WHERE id BETWEEN 40 AND 50")
    catch_up(capture, source)
    assert_same(source, log, capture, ["orders"])


def test_a_transaction_over_tables_is_one_commit(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE a (id int8 PRIMARY KEY); CREATE TABLE b (id int8 PRIMARY KEY, a int8)")
    capture = make("a", "b")
    catch_up(capture, source)
    with source.transaction():
        source.execute("INSERT INTO a VALUES (1)")
        source.execute("INSERT INTO b VALUES (1, 1)")
        source.execute("INSERT INTO a VALUES (2)")
    with source.transaction():
        source.execute("INSERT INTO b VALUES (2, 2)")
        with source.transaction():
            source.execute("INSERT INTO a VALUES (3)")
        with source.transaction(force_rollback=True):
            source.execute("INSERT INTO a VALUES (4)")
        source.execute("DELETE FROM b WHERE id = 1")
    source.execute("INSERT INTO a VALUES (5)")
    catch_up(capture, source)
    topics = [capture.options.names.topic("public", table) for table in "ab"]
    first, second, third = (sorted(map(str, each)) for each in commits(log, *topics))
    assert first == ["('a', {'id': 1})", "('a', {'id': 2})", "('b', {'id': 1, 'a': 1})"]
    assert second == ["('a', {'id': 3})", "('b', ('gone', 1))", "('b', {'id': 2, 'a': 2})"]
    assert third == ["('a', {'id': 5})"]
    records = list(log.read(topics[0]))
    assert {"lsn", "xid", "committed_at", "op"} <= set(records[0].headers)
    assert_same(source, log, capture, ["a", "b"])


def test_truncate_empties_the_topic(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE a (id int8 PRIMARY KEY)")
    source.execute("INSERT INTO a SELECT generate_series(1, 100)")
    capture = make("a")
    catch_up(capture, source)
    with source.transaction():
        source.execute("INSERT INTO a VALUES (101)")
        source.execute("TRUNCATE a")
        source.execute("INSERT INTO a VALUES (102)")
    catch_up(capture, source)
    assert log_rows(log, capture.options.names.topic("public", "a")) == [{"id": 102}]


def test_a_capture_that_begins_again_repeats_nothing(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE a (id int8 PRIMARY KEY, n int4)")
    capture = make("a")
    for round_number in range(5):
        for number in range(10):
            source.execute("INSERT INTO a VALUES (%s, 0)", (round_number * 10 + number,))
            source.execute("UPDATE a SET n = n + 1")
        catch_up(capture, source)
        assert_same(source, log, capture, ["a"])
        capture = make("a")
    topic = capture.options.names.topic("public", "a")
    seen = [(record.headers["lsn"], str(record.value)) for record in log.read(topic) if "xid" in record.headers]
    assert len(seen) == len(set(seen))


def test_a_large_transaction_is_streamed_and_whole(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE a (id int8 PRIMARY KEY, note text)")
    capture = make("a")
    catch_up(capture, source)
    source.execute("SET logical_decoding_work_mem = '64kB'")
    source.execute("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'")
    source.execute("SELECT pg_reload_conf()")
    try:
        with source.transaction():
            source.execute("INSERT INTO a SELECT g, repeat('x', 50) FROM generate_series(1, 20000) g")
            with source.transaction(force_rollback=True):
                source.execute("INSERT INTO a SELECT g, 'rolled back' FROM generate_series(20001, 30000) g")
            source.execute("UPDATE a SET note = 'second' WHERE id <= 5000")
            source.execute("DELETE FROM a WHERE id > 19000")
        with source.transaction(force_rollback=True):
            source.execute("INSERT INTO a SELECT g, 'never' FROM generate_series(50001, 70000) g")
        before = commit_of(log.position())
        catch_up(capture, source)
    finally:
        source.execute("ALTER SYSTEM RESET logical_decoding_work_mem")
        source.execute("SELECT pg_reload_conf()")
    topic = capture.options.names.topic("public", "a")
    # Heartbeats move the bookmark meanwhile, in commits without records.
    [found] = {commit_of(record.position) for record in log.read(topic)}
    assert found > before
    assert_same(source, log, capture, ["a"])


def test_a_table_that_is_described_in_a_part_that_is_rolled_back(source: Source, log: Log, make: Make) -> None:
    """The server describes it once in a transaction that it streams, before anybody knows what becomes of the part."""
    source.execute("CREATE TABLE a (id int8 PRIMARY KEY, note text)")
    source.execute("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'")
    source.execute("SELECT pg_reload_conf()")
    capture = make("a")
    spool = capture.options.directory / "spool"
    try:
        with keeping(capture) as beside:
            beside.wait_until_ready(lambda: False)
            with source.transaction():
                with source.transaction(force_rollback=True):
                    source.execute("INSERT INTO a SELECT g, repeat('x', 50) FROM generate_series(1, 20000) g")
                    deadline = time.monotonic() + 200
                    while not list(spool.glob("*")):
                        assert time.monotonic() < deadline
                        time.sleep(0.05)
                source.execute("INSERT INTO a SELECT g, 'kept' FROM generate_series(20001, 20010) g")
            while beside.failure is None and len(log_rows(log, capture.options.names.topic("public", "a"))) < 10:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            beside.check()
    finally:
        source.execute("ALTER SYSTEM RESET logical_decoding_work_mem")
        source.execute("SELECT pg_reload_conf()")
    assert_same(source, log, capture, ["a"])
