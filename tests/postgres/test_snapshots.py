"""Snapshots: parallel, interrupted, incremental while changes flow, and after a lost slot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from headwater.connectors.postgres import snapshot
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.requests import request_snapshot
from headwater.connectors.postgres.setup import drop_slot
from headwater.connectors.postgres.source import PostgresSource
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import assert_same, catch_up, wait_for
from tests.postgres.running import keeping
from tests.postgres.servers import Server

Source = psycopg.Connection[Any]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "CHUNK_BLOCKS", 3)


@contextmanager
def writing(server: Server, database: str, below: int = 100_000) -> Iterator[None]:
    """Changes rows of table t with lower ids all the time: each has a version that only grows."""
    stop = threading.Event()

    def write() -> None:
        with server.connect(database) as connection:
            number = 0
            while not stop.is_set():
                number += 1
                with connection.transaction():
                    connection.execute(
                        "UPDATE t SET version = version + 1 WHERE id %% 97 = %s AND id < %s", (number % 97, below)
                    )
                    connection.execute("INSERT INTO t VALUES (%s, 0, 'new')", (100_000 + number,))
                    connection.execute("DELETE FROM t WHERE id = %s", (number * 3,))
                stop.wait(0.02)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def assert_never_older(log: Log, topic: str) -> None:
    newest: dict[object, int] = {}
    for record in log.read(topic):
        if record.value is None:
            newest.pop(record.key, None)
            continue
        version = record.value["version"]
        assert isinstance(version, int)
        assert version >= newest.get(record.key, 0), f"{record.key} went back to {version}"
        newest[record.key] = version


def fill(source: Source) -> None:
    source.execute("CREATE TABLE t (id int8 PRIMARY KEY, version int4, note text)")
    source.execute("CREATE TABLE e (n int8, note text)")
    source.execute("INSERT INTO t SELECT g, 0, repeat('x', 100) FROM generate_series(1, 5000) g")
    source.execute("INSERT INTO e SELECT g, repeat('x', 100) FROM generate_series(1, 1000) g")


@pytest.mark.usefixtures("small_chunks")
def test_the_first_snapshot_is_one_commit_while_changes_flow(
    source: Source, log: Log, make: Make, server: Server, database: str
) -> None:
    fill(source)
    capture = make("t", "e")
    with writing(server, database):
        capture.prepare()
    topic = capture.options.names.topic("public", "t")
    assert len({record.position for record in log.read([topic, capture.options.names.topic("public", "e")])}) == 1
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])
    assert_never_older(log, topic)


@pytest.mark.usefixtures("small_chunks")
def test_an_interrupted_first_snapshot_goes_on(
    source: Source, log: Log, make: Make, server: Server, database: str
) -> None:
    fill(source)
    capture = make("t", "e")
    read: list[str] = []

    def progress(table: str, _done: int, _total: int) -> None:
        read.append(table)
        if len(read) == 5:
            raise KeyboardInterrupt

    capture._bootstrap._progress = progress
    with writing(server, database):
        with pytest.raises(KeyboardInterrupt):
            capture.prepare()
        status = PostgresSource(log, capture.options).status()
        assert 0 < status.blocks_read <= status.blocks_total
        again = make("t", "e")
        source.execute("INSERT INTO e VALUES (5000, 'later')")
        catch_up(again, source)
        assert again.applier is not None
    catch_up(again, source)
    assert_same(source, log, again, ["t"])
    assert_never_older(log, again.options.names.topic("public", "t"))
    assert PostgresSource(log, again.options).status().blocks_total == 0
    values = [record.value["n"] for record in log.read(again.options.names.topic("public", "e")) if record.value]
    assert sorted(values) == [*range(1, 1001), 5000]  # type: ignore[type-var]


@pytest.mark.usefixtures("small_chunks")
def test_a_snapshot_while_changes_flow(source: Source, log: Log, make: Make, server: Server, database: str) -> None:
    fill(source)
    capture = make("t")
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "t")
    log.delete(topic, [{"id": id_} for id_ in range(1000, 1100)])  # what a capture with a bug would have lost
    log.append(topic, [{"id": 7_000_000, "version": 0, "note": "not in the database"}])
    with writing(server, database):
        request_snapshot(log, capture.options, "t", purge=True)
        request_snapshot(log, capture.options, "t", where="id < 100")
        catch_up(capture, source)
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])


@contextmanager
def commits_that_wait(source: Source) -> Iterator[None]:
    """Within the block a commit is in the WAL, for the stream to bring, and nobody sees it: there is no standby."""
    source.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    source.execute("SELECT pg_reload_conf()")
    wait_for(lambda: source.execute("SHOW synchronous_standby_names").fetchone() == ("nobody",))
    try:
        yield
    finally:
        source.execute("ALTER SYSTEM RESET synchronous_standby_names")
        source.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize(
    "change", ["UPDATE t SET version = version + 1 WHERE id > 2500", "DELETE FROM t WHERE id > 2500"]
)
def test_a_change_that_the_stream_brings_before_others_see_it(
    source: Source,
    log: Log,
    make: Make,
    server: Server,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    monkeypatch.setattr(snapshot, "CHUNK_BLOCKS", 1)
    fill(source)
    source.execute("SET synchronous_commit = local")
    source.execute(f"ALTER DATABASE {database} SET synchronous_commit = local".encode())
    capture = make("t")
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "t")
    before = log.offsets(topic)[0][1]

    def waits() -> None:
        with server.connect(database) as connection:
            connection.execute("SET synchronous_commit = on")
            connection.execute(change.encode())

    with keeping(capture) as running:
        running.wait_until_ready(lambda: False)
        with commits_that_wait(source):
            PostgresSource(log, capture.options).snapshot("t")
            wait_for(lambda: log.offsets(topic)[0][1] > before)
            changer = threading.Thread(target=waits)
            changer.start()
            wait_for(lambda: capture.life.jobs == [])
            assert changer.is_alive()
            seen = source.execute("SELECT count(*) FROM t WHERE id > 2500 AND version = 0").fetchone()
            assert seen == (2500,)
        changer.join()
        running.check()
    catch_up(capture, source)
    assert_same(source, log, capture, ["t"])
    changed = [record.offset for record in log.read(topic) if record.headers["op"] in "ud"]
    assert changed
    read_later = [record for record in log.read(topic) if record.headers["op"] == "r" and record.offset > changed[-1]]
    assert read_later, "the change came after everything was read"


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("loss", ["dropped", "moved"])
def test_a_lost_slot_is_repaired(
    source: Source, log: Log, make: Make, server: Server, database: str, loss: str
) -> None:
    fill(source)
    said: list[str] = []
    capture = make("t")
    catch_up(capture, source)
    source.execute("UPDATE t SET version = 7 WHERE id < 50")
    source.execute("DELETE FROM t WHERE id BETWEEN 100 AND 200")
    source.execute("INSERT INTO t VALUES (9000, 0, 'unseen')")
    if loss == "dropped":
        drop_slot(source, capture.options)
    else:
        name = capture.options.names.slot
        # The server takes a moment to notice that the capture has gone.
        free = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
        wait_for(lambda: source.execute(free, (name,)).fetchone())
        source.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", (name,))
    again = make("t")
    again._say = said.append
    with writing(server, database):
        catch_up(again, source)
    catch_up(again, source)
    assert_same(source, log, again, ["t"])
    assert any("does not continue" in each for each in said)
    events = log.scan(again.options.names.history)["event"].to_pylist()
    assert events.count("slot lost") == 1


def test_a_new_table_without_a_key_has_every_row_once(
    source: Source, log: Log, make: Make, server: Server, database: str
) -> None:
    source.execute("CREATE TABLE a (id int8 PRIMARY KEY)")
    capture = make("*")
    catch_up(capture, source)
    source.execute("CREATE TABLE e (n serial, note text)")
    stop = threading.Event()

    def write() -> None:
        with server.connect(database) as connection:
            while not stop.is_set():
                connection.execute("INSERT INTO e (note) VALUES ('x')")

    thread = threading.Thread(target=write)
    thread.start()

    def found(capture: Capture) -> bool:
        return capture.tables.named("e") is not None

    try:
        capture.run(found)
        catch_up(capture, source)
    finally:
        stop.set()
        thread.join()
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "e")
    values = [record.value["n"] for record in log.read(topic) if record.value]
    assert values
    assert sorted(values) == [row[0] for row in source.execute("SELECT n FROM e ORDER BY n")]  # type: ignore[type-var]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    "rewrite", ["VACUUM FULL t", "ALTER TABLE t DROP COLUMN note", "ALTER TABLE t ALTER version TYPE int8"]
)
def test_a_table_that_is_written_anew_while_it_is_read(source: Source, log: Log, make: Make, rewrite: str) -> None:
    fill(source)
    source.execute("DELETE FROM t WHERE id % 2 = 0")
    capture = make("t")
    read: list[str] = []

    def progress(table: str, _done: int, _total: int) -> None:
        read.append(table)
        if len(read) == 5:
            raise KeyboardInterrupt

    capture._bootstrap._progress = progress
    with pytest.raises(KeyboardInterrupt):
        capture.prepare()
    source.execute(rewrite.encode())
    again = make("t")
    catch_up(again, source)
    # A column that was dropped stays in the topic, which was there before.
    found = {(row["id"], row["version"]) for row in log.table(again.options.names.topic("public", "t")).to_pylist()}
    assert found == set(source.execute("SELECT id, version FROM t").fetchall())


@pytest.mark.usefixtures("small_chunks")
def test_a_snapshot_of_a_table_whose_columns_changed_unnoticed(source: Source, log: Log, make: Make) -> None:
    fill(source)
    capture = make("t")
    catch_up(capture, source)
    source.execute("ALTER TABLE t ADD COLUMN extra int4 DEFAULT 7; ALTER TABLE t DROP COLUMN note")
    request_snapshot(log, capture.options, "t")
    catch_up(capture, source)
    rows = log.table(capture.options.names.topic("public", "t")).to_pylist()
    assert {row["extra"] for row in rows} == {7}


def test_files_that_a_killed_snapshot_has_left_go(source: Source, make: Make) -> None:
    source.execute("CREATE TABLE t (id int8 PRIMARY KEY)")
    capture = make("t")
    catch_up(capture, source)
    left = [capture.options.directory / name for name in ("snapshot/1@0-0.arrow", "staged-whole/0.staged")]
    for file in left:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"")
    catch_up(make("t"), source)
    assert not [file for file in left if file.exists()]


@pytest.mark.usefixtures("small_chunks")
def test_between_chunks_nobody_waits_for_a_lock(source: Source, log: Log, make: Make) -> None:
    fill(source)
    for table in "te":  # which would hold a lock, too
        source.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
    capture = make("t", "e", snapshot_workers=1)
    locked: list[str] = []

    def progress(table: str, _done: int, _total: int) -> None:
        with source.transaction():
            source.execute("LOCK TABLE t, e IN ACCESS EXCLUSIVE MODE NOWAIT")
        locked.append(table)

    capture._bootstrap._progress = progress
    catch_up(capture, source)
    assert len(locked) > 5
    assert_same(source, log, capture, ["t"])
