"""Bodies are read up to a limit, also those that are packed, and hold nothing that is larger than it looks."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidRecords, Refused
from headwater.server import bodies
from headwater.server.limits import Limits

LIMIT = 1000


def ipc(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def read(parts: list[bytes], announced: str | None = None) -> bytes:
    async def chunks() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    sizes: list[int] = []
    found = asyncio.run(bodies.read(chunks(), announced, LIMIT, sizes.append))
    assert sum(sizes) == len(found)
    return found


def test_a_body_is_read_up_to_the_limit() -> None:
    assert read([b"a" * 600, b"b" * 400]) == b"a" * 600 + b"b" * 400
    for parts, announced in (([b"a" * 600, b"b" * 401], None), ([b""], "1001")):
        with pytest.raises(Refused) as refused:
            read(parts, announced)
        assert refused.value.status == 413


def test_gzip_is_unpacked() -> None:
    assert bodies.unpacked(gzip.compress(b"a" * LIMIT), "gzip", LIMIT) == b"a" * LIMIT
    assert bodies.unpacked(gzip.compress(b"a") + gzip.compress(b"b"), "gzip", LIMIT) == b"ab"


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(200 << 20), 9)
    tracemalloc.start()
    try:
        with pytest.raises(Refused) as refused:
            bodies.unpacked(bomb, "gzip", 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert refused.value.status == 413


@pytest.mark.parametrize("body", [b"not gzip", gzip.compress(b"a" * 500, mtime=0)[:-4], zlib.compress(b"a")])
def test_damaged_gzip_is_refused(body: bytes) -> None:
    with pytest.raises(Refused) as refused:
        bodies.unpacked(body, "gzip", LIMIT)
    assert refused.value.status == 400


def test_other_encodings_are_refused() -> None:
    with pytest.raises(Refused) as refused:
        bodies.check_encoding("br")
    assert refused.value.status == 415


def test_an_array_is_split_without_touching_its_digits() -> None:
    body = b' [ {"a": 1.50,\n "b": [1, {"c": "]"}]} , 3, "x\\n" ]\n'
    assert bodies.elements(body) == [b'{"a": 1.50,  "b": [1, {"c": "]"}]}', b"3", b'"x\\n"']
    assert bodies.elements(b"[]") == bodies.elements(b" [ ] ") == []
    assert bodies.elements(b'{"a": 1}') == [b'{"a": 1}']


@pytest.mark.parametrize("body", [b"", b"[", b"[1,]", b"[1 2]", b"[] x", b"[1],", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refused) as refused:
        bodies.elements(body)
    assert refused.value.status == 400


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_every_array_is_split_into_its_elements(value: object) -> None:
    import json

    given_values = value if isinstance(value, list) else [value]
    for indent in (None, 1):
        text = json.dumps(given_values, indent=indent).encode()
        assert [json.loads(one) for one in bodies.elements(text)] == given_values


def test_an_element_that_is_no_object_is_named() -> None:
    with pytest.raises(InvalidRecords) as wrong:
        bodies.rows_of(b'[{"a": 1}, 7]', bodies.JSON, "t", Limits())
    assert [(one.index, one.expected) for one in wrong.value.rejected] == [(1, "a JSON object")]


@pytest.mark.parametrize("kind", [bodies.JSON, *bodies.JSON_LINES])
def test_records_are_counted_and_limited(kind: str) -> None:
    body = b'[{"a": 1}, {"a": 2}]' if kind == bodies.JSON else b'{"a": 1}\n\n{"a": 2}\n'
    assert bodies.rows_of(body, kind, "t", Limits())[1] == 2
    with pytest.raises(Refused) as refused:
        bodies.rows_of(body, kind, "t", Limits(append_records_max=1))
    assert refused.value.status == 413


def test_arrow_is_taken() -> None:
    table = pa.table({"a": [1, 2], "b": [["x"], None], "c": [{"d": 1.5}, None]})
    assert bodies.rows_of(ipc(table), bodies.ARROW, "t", Limits()) == (table, 2)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": pa.array(["x", "x"]).dictionary_encode()}),
        pa.table({"a": pa.nulls(2)}),
        pa.table({"a": pa.array([[None]], pa.list_(pa.null()))}),
        pa.table({"a": pa.array([{}, {}], pa.struct([]))}),
        pa.table({"a": pa.array(["x"], pa.string_view())}),
        pa.table({"a": pa.array([[1, 2]], pa.list_(pa.int64(), 2))}),
    ],
)
def test_arrow_that_could_stand_for_more_than_its_bytes_is_refused(table: pa.Table) -> None:
    with pytest.raises(Refused) as refused:
        bodies.rows_of(ipc(table), bodies.ARROW, "t", Limits())
    assert refused.value.status == 415


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_packed_arrow_is_refused(compression: str) -> None:
    for table in (pa.table({"a": [0] * 1000}), pa.table({"a": pa.array(["x"]).dictionary_encode()})):
        with pytest.raises(Refused) as refused:
            bodies.rows_of(ipc(table, compression), bodies.ARROW, "t", Limits())
        assert refused.value.code == "packed_arrow"


def test_damaged_arrow_never_gets_past_the_check() -> None:
    good = ipc(pa.table({"a": [1, 2, 3], "b": ["xx", "yyy", None]}))
    for at in range(len(good)):
        broken = good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]
        try:
            table, _ = bodies.rows_of(broken, bodies.ARROW, "t", Limits())
        except Refused:
            continue
        assert isinstance(table, pa.Table)
        table.to_pylist()
