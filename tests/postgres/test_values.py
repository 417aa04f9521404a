"""Every built-in type: the same value by the snapshot and by the stream, and lossless."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import catch_up

Source = psycopg.Connection[Any]

# type, SQL of the value, what the log has; a text after `special` is in the header, and the column is null.
CASES: list[tuple[str, str, Any]] = [
    ("int2", "-32768", -32768),
    ("int4", "2147483647", 2147483647),
    ("int8", "-9223372036854775808", -9223372036854775808),
    ("oid", "4294967295", 4294967295),
    ("numeric(10,2)", "12345678.90", Decimal("12345678.90")),
    ("numeric(38,10)", "1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
    ("numeric(50,2)", "1.50", "1.50"),
    ("numeric", "123456789012345678901234567890.000000000000000000000000000001",
     "123456789012345678901234567890.000000000000000000000000000001"),
    ("numeric", "'NaN'", "NaN"),
    ("numeric(10,2)", "'NaN'", ("special", "NaN")),
    ("float4", "1.1", 1.100000023841858),
    ("float8", "0.1", 0.1),
    ("float8", "'-Infinity'", float("-inf")),
    ("bool", "true", True),
    ("text", "E'a\\nb\"c\\\\d é 🦀'", "a\nb\"c\\d é 🦀"),
    ("text", "''", ""),
    ("varchar(5)", "'abc'", "abc"),
    ("char(5)", "'abc'", "abc  "),
    ("name", "'abc'", "abc"),
    ('"char"', "'x'", "x"),
    ("bytea", "'\\x00ff10'::bytea", b"\x00\xff\x10"),
    ("bytea", "''::bytea", b""),
    ("date", "'2024-02-29'", date(2024, 2, 29)),
    ("date", "'infinity'", ("special", "infinity")),
    ("date", "'0044-03-15 BC'", ("special", "0044-03-15 BC")),
    ("timestamp", "'2024-01-02 03:04:05.000006'", datetime.fromisoformat("2024-01-02T03:04:05.000006")),
    ("timestamptz", "'2024-01-02 03:04:05.5+02'", datetime(2024, 1, 2, 1, 4, 5, 500000, tzinfo=UTC)),
    ("timestamptz", "'-infinity'", ("special", "-infinity")),
    ("time", "'03:04:05.000006'", "03:04:05.000006"),
    ("timetz", "'03:04:05+02'", "03:04:05+02"),
    ("interval", "'1 year 2 mons 3 days 04:05:06.7'", "P1Y2M3DT4H5M6.7S"),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", "'{\"a\":  1}'", '{"a":  1}'),
    ("jsonb", "'{\"a\":  1}'", '{"a": 1}'),
    ("int4[]", "'{1,NULL,3}'", [1, None, 3]),
    ("int4[]", "'{}'", []),
    ("int4[]", "'{{1,2},{3,4}}'", ("special", "{{1,2},{3,4}}")),
    ("int4[]", "'[0:1]={1,2}'", ("special", "[0:1]={1,2}")),
    ("text[]", "ARRAY['a b', 'c,d', 'e\"f', 'g\\h', '', 'NULL', NULL, '{}']",
     ["a b", "c,d", 'e"f', "g\\h", "", "NULL", None, "{}"]),
    ("numeric(6,2)[]", "'{1.5,2}'", [Decimal("1.50"), Decimal("2.00")]),
    ("timestamptz[]", "'{2024-01-01 00:00:00+00}'", [datetime(2024, 1, 1, tzinfo=UTC)]),
    ("mood", "'sad'", "sad"),
    ("mood[]", "'{sad,ok}'", ["sad", "ok"]),
    ("positive", "7", 7),
    ("pair", "ROW(1, NULL)::pair", "(1,)"),
    ("pair", "ROW(NULL, NULL)::pair", "(,)"),
    ("int4range", "'[1,5)'", "[1,5)"),
    ("int4multirange", "'{[1,3),[5,9)}'", "{[1,3),[5,9)}"),
    ("inet", "'192.168.1.5'", "192.168.1.5"),
    ("cidr", "'10.0.0.0/8'", "10.0.0.0/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    ("money", "'12.34'", "$12.34"),
    ("bit(4)", "B'1010'", "1010"),
    ("varbit", "B'10101'", "10101"),
    ("point", "'(1,2)'", "(1,2)"),
    ("box", "'(3,4),(1,2)'", "(3,4),(1,2)"),
    ("box[]", "ARRAY['(3,4),(1,2)'::box]", "{(3,4),(1,2)}"),
    ("tsvector", "'a b'", "'a' 'b'"),
    ("pg_lsn", "'16/B374D848'", "16/B374D848"),
    ("xid8", "'18446744073709551615'", "18446744073709551615"),
]  # fmt: skip


@pytest.fixture
def typed(source: Source) -> Source:
    source.execute("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN positive AS int4 CHECK (value > 0)")
    source.execute("CREATE TYPE pair AS (a int4, b int4)")
    columns = ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(CASES))
    source.execute(f"CREATE TABLE v (id int4 PRIMARY KEY, {columns})")
    return source


def insert(source: Source, id_: int) -> None:
    source.execute(f"INSERT INTO v VALUES ({id_}, {', '.join(value for _, value, _ in CASES)})".encode())


def expected() -> tuple[dict[str, Any], dict[str, str]]:
    special = {f"c{n}": v[1] for n, (_, _, v) in enumerate(CASES) if isinstance(v, tuple)}
    return {f"c{n}": None if isinstance(v, tuple) else v for n, (_, _, v) in enumerate(CASES)}, special


def test_snapshot_and_stream_bring_the_same_values(typed: Source, log: Log, make: Make) -> None:
    insert(typed, 1)
    typed.execute("INSERT INTO v (id) VALUES (2)")
    capture = make("v")
    catch_up(capture, typed)
    insert(typed, 3)
    typed.execute("INSERT INTO v (id) VALUES (4)")
    catch_up(capture, typed)
    values, special = expected()
    records = {record.key: record for record in log.read(capture.options.names.topic("public", "v"))}
    for id_ in (1, 3):
        value = dict(records[id_].value or {})
        assert value == {"id": id_, **values}
        assert json.loads(records[id_].headers["special"]) == special
    for id_ in (2, 4):
        assert records[id_].value == {"id": id_, **dict.fromkeys(values)}
        assert "special" not in records[id_].headers


def big(number: int) -> str:
    """A text that does not compress, so that it is stored out of line."""
    return f"(SELECT string_agg(md5(({number} + g)::text), '') FROM generate_series(1, 300) g)"


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_large_value_that_did_not_change_is_kept(source: Source, log: Log, make: Make, identity: str) -> None:
    source.execute("CREATE TABLE t (id int8 PRIMARY KEY, n int4, doc text, other jsonb)")
    source.execute(f"ALTER TABLE t REPLICA IDENTITY {identity}")
    source.execute(f"INSERT INTO t SELECT i, 0, {big(7)}, to_jsonb({big(9)}) FROM generate_series(1, 5) i".encode())
    capture = make("t")
    catch_up(capture, source)
    source.execute(f"INSERT INTO t VALUES (6, 0, {big(70)}, to_jsonb({big(90)}))".encode())
    source.execute("UPDATE t SET n = 1")  # all, from the log and from the same batch
    source.execute("UPDATE t SET id = 60, n = 2 WHERE id = 6")  # under another key
    with source.transaction():
        source.execute(f"UPDATE t SET doc = {big(1000)} WHERE id = 3".encode())
        source.execute("UPDATE t SET n = 3 WHERE id = 3")
        source.execute(f"INSERT INTO t VALUES (8, 0, {big(11)}, NULL)".encode())
        source.execute("UPDATE t SET n = 4 WHERE id = 8")
    catch_up(capture, source)
    source.execute("UPDATE t SET n = 5 WHERE id IN (2, 3, 60)")
    source.execute("UPDATE t SET doc = NULL WHERE id = 2")
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "t")
    found = {row["id"]: (row["n"], row["doc"], row["other"]) for row in log.table(topic).to_pylist()}
    assert found == {row[0]: row[1:] for row in source.execute("SELECT id, n, doc, other::text FROM t")}
    assert all(len(record.value["doc"] or "x" * 9600) == 9600 for record in log.read(topic) if record.value)  # type: ignore[arg-type]
