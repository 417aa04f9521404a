"""Audits: equal ranges cost nothing, and what differs is found and set right, down to the key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from headwater.cdc import comparison
from headwater.connectors.postgres import audit as auditing
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.source import PostgresSource
from headwater.engine.sources import TableAudit
from headwater.errors import UsageError
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import assert_same, catch_up, wait_for
from tests.postgres.running import keeping
from tests.postgres.servers import Server
from tests.postgres.test_snapshots import writing
from tests.postgres.test_values import insert, typed

Source = psycopg.Connection[Any]
__all__ = ["typed"]


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "RANGE_ROWS", 50)


@contextmanager
def audited(log: Log, capture: Capture) -> Iterator[PostgresSource]:
    """A source whose capture runs meanwhile."""
    with keeping(capture) as running:
        running.wait_until_ready(lambda: False)
        yield PostgresSource(log, capture.options)
        running.check()


def only(found: list[TableAudit]) -> TableAudit:
    [audit] = found
    return audit


KEYS = {
    "int4": "g",
    "int8": "-g * 10000000000",
    "numeric(15,9)": "g / 1000000000.0 + g",
    "numeric": "g / 7.0",
    "text": "chr(97 + g % 26) || CASE WHEN g % 2 = 0 THEN 'É ' ELSE 'z_' END || g",
    "char(9)": "'k' || g",
    "uuid": "md5(g::text)::uuid",
    "date": "date '0001-02-03' + g * 1000",
    "timestamp": "timestamp '2024-01-01' + g * interval '1.5 s'",
    "timestamptz": "timestamptz '1900-01-01' + g * interval '100 days'",
    "bytea": "decode(md5(g::text), 'hex')",
    "float8": "sqrt(g) * 10 ^ (g % 40 - 20)",
    "oid": "(4294967295 - g)::oid",
    "inet": "inet '10.0.0.0' + g",
}


@pytest.mark.parametrize("kind", KEYS)
def test_equal_ranges_of_keys_of_any_type(source: Source, log: Log, make: Make, kind: str) -> None:
    source.execute(f"CREATE TABLE t (k {kind} PRIMARY KEY, n int4)")
    source.execute(f"INSERT INTO t SELECT {KEYS[kind]}, g FROM generate_series(1, 1000) g".encode())
    capture = make("t")
    catch_up(capture, source)
    source.execute("UPDATE t SET n = -n WHERE n % 10 = 0; DELETE FROM t WHERE n % 7 = 1")
    with audited(log, capture) as audit:
        found = only(audit.audit())
        assert found.equal
        assert found.ranges > 10
        assert (found.ranges_fetched, found.rows_fetched) == (0, 0)
        assert found.checksum_of_log == found.checksum_of_source
        assert found.rows_in_log == found.rows_in_source > 800
        topic = capture.options.names.topic("public", "t")
        [wrong] = log.table(topic).slice(5, 1).to_pylist()
        log.append(topic, [{**wrong, "n": 5_000_000}])
        differs = only(audit.audit())
        assert differs.different == ((wrong["k"],),)
        assert differs.ranges_fetched == 1
        assert not differs.missing
        assert not differs.extra


def test_all_tables_are_compared_at_one_place(source: Source, log: Log, make: Make) -> None:
    for number in range(5):
        source.execute(f"CREATE TABLE t{number} (id int4 PRIMARY KEY); INSERT INTO t{number} VALUES (1)")
    capture = make("t*")
    with audited(log, capture) as audit:
        found = audit.audit()
        assert len(found) == 5
        assert all(each.equal for each in found)
        assert len({each.place for each in found}) == 1


def test_every_type_of_value(typed: Source, log: Log, make: Make) -> None:
    insert(typed, 1)
    typed.execute("INSERT INTO v (id) VALUES (2)")
    capture = make("v")
    catch_up(capture, typed)
    insert(typed, 3)
    with audited(log, capture) as audit:
        assert only(audit.audit()).equal


def test_floats_and_times_of_all_sizes(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, d float8, f float4, a float8[], t timestamptz, s text[])")
    source.execute(
        "INSERT INTO t SELECT g, (random() - 0.5) * 10 ^ (g % 300 - 150), (random() * 10 ^ (g % 60 - 30))::float4, "
        "ARRAY[g, g / 3.0, 10.0 ^ (g % 20), NULL], timestamptz '2024-01-01' + g * interval '0.12345 s', "
        "ARRAY[chr(1 + g % 300), E'\\u00a0x', 'null', 'a b', chr(1 + g % 50) || '\"'] FROM generate_series(1, 2000) g"
    )
    capture = make("t")
    with audited(log, capture) as audit:
        assert only(audit.audit()).equal


def test_what_differs_is_found_and_exactly_that_comes_again(
    source: Source, log: Log, make: Make, server: Server, database: str
) -> None:
    source.execute("CREATE TABLE t (id int8 PRIMARY KEY, version int4, note text)")
    source.execute("INSERT INTO t SELECT g, 0, 'note ' || g FROM generate_series(1, 3000) g")
    source.execute("CREATE TABLE k (a int4, b text, n int4, PRIMARY KEY (a, b))")
    source.execute("INSERT INTO k SELECT 1, 'b' || g, g FROM generate_series(1, 500) g")
    capture = make("t", "k")
    catch_up(capture, source)
    topics = {name: capture.options.names.topic("public", name) for name in "tk"}
    with audited(log, capture) as audit, writing(server, database, below=1000):
        log.delete(topics["t"], [{"id": 2900}])
        log.append(topics["t"], [{"id": 2950, "version": 7, "note": "wrong"}, {"id": 9_999_999, "version": 0}])
        log.append(topics["k"], [{"a": 1, "b": "b7", "n": -1}, {"a": 2, "b": "it's \\", "n": 0}])
        records = log.scan(topics["k"]).num_rows
        found = {each.table: each for each in audit.audit(repair=True)}
        t, k = found["public.t"], found["public.k"]
        assert (t.missing, t.different, t.extra) == (((2900,),), ((2950,),), ((9_999_999,),))
        assert (k.missing, k.different, k.extra) == ((), ((1, "b7"),), ((2, "it's \\"),))
        assert 0 < t.rows_fetched < 700 < t.rows_in_source
        assert t.repairing
    catch_up(make("t", "k"), source)
    assert_same(source, log, capture, "tk")
    assert log.scan(topics["k"]).num_rows == records + 2


def test_rows_without_a_key(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE e (n int4, note text); ALTER TABLE e REPLICA IDENTITY FULL")
    source.execute("INSERT INTO e SELECT g % 300, 'x' FROM generate_series(1, 1000) g")
    source.execute("CREATE TABLE plain (n int4); INSERT INTO plain VALUES (1)")
    capture = make("e", "plain")
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "e")
    with audited(log, capture) as audit:
        equal = only(audit.audit())
        assert equal.equal
        assert (equal.rows_in_source, equal.rows_fetched) == (1000, 0)
        lost = log.table(topic)["_row"][17].as_py()
        log.delete(topic, [{"_row": lost}])
        found = only(audit.audit(repair=True))
        assert not found.equal
        assert len(found.missing) == 1
        assert str(found.missing[0][0]).startswith(lost[:32])
        assert found.rows_fetched < 200
    catch_up(make("e", "plain"), source)
    with audited(log, make("e", "plain")) as audit:
        assert only(audit.audit()).equal


def test_a_table_that_was_changed_unnoticed_is_not_compared(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int8 PRIMARY KEY, n int4); INSERT INTO t VALUES (1, 1)")
    capture = make("t")
    catch_up(capture, source)
    with audited(log, capture) as audit:
        source.execute("ALTER TABLE t ADD COLUMN more int4 DEFAULT 7")
        with pytest.raises(UsageError, match="does not know of it yet"):
            audit.audit()
        audit.snapshot("t")
        topic = capture.options.names.topic("public", "t")
        wait_for(lambda: log.table(topic).to_pylist()[0].get("more") == 7)
        assert only(audit.audit()).equal


def test_an_audit_without_a_capture_says_so(
    source: Source, log: Log, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "WAIT_SECONDS_MAX", 0.3)
    source.execute("CREATE TABLE t (id int8 PRIMARY KEY)")
    capture = make("t")
    catch_up(capture, source)
    source.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(UsageError, match="Let the capture run while you audit"):
        PostgresSource(log, capture.options).audit()
