"""Rows that were read, with their headers."""

from __future__ import annotations

import pyarrow as pa

from headwater.connectors.postgres.copying import with_headers
from headwater.connectors.postgres.snapshot import completed


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
