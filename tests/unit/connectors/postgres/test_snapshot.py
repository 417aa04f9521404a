"""Rows that were read, with their headers; and what can be told of a first snapshot from its files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from headwater.connectors.postgres.copying import with_headers
from headwater.connectors.postgres.snapshot import blocks_read, completed


def test_blocks_of_chunks_that_are_whole_are_read(tmp_path: Path) -> None:
    assert blocks_read(tmp_path / "missing") == (0, 0)
    chunks = [[1, "public.orders", 0, 4096], [1, "public.orders", 4096, 5000], [2, "public.customers", 0, 10]]
    (tmp_path / "plan.json").write_text(json.dumps({"start": "0/1", "chunks": chunks, "layout": {}}))
    assert blocks_read(tmp_path) == (0, 5010)
    for name in ("1@0-1.arrow", "2@0-1.arrow", "0@0-1.part"):
        (tmp_path / name).touch()
    assert blocks_read(tmp_path) == (914, 5010)


def test_batches_with_and_without_headers_of_their_own() -> None:
    special = with_headers(pa.table({"d": pa.array([None], pa.date32())}), {}, [(0, "d", "infinity")])
    plain = pa.table({"d": pa.array([1], pa.date32())})
    rows = completed(pa.concat_tables([plain, special, plain], promote_options="default"), {"lsn": "0/1"})
    assert [dict(each) for each in rows["_headers"].to_pylist()] == [
        {"op": "r", "lsn": "0/1"},
        {"op": "r", "special": '{"d": "infinity"}', "lsn": "0/1"},
        {"op": "r", "lsn": "0/1"},
    ]
    assert completed(plain, {"lsn": "0/1"})["_headers"].to_pylist() == [[("op", "r"), ("lsn", "0/1")]]
