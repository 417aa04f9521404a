"""What of a chunk enters the log, after changes that came by while it was read."""

from __future__ import annotations

import pyarrow as pa

from headwater.cdc.windows import Window

CHUNK = pa.table({"id": [1, 2, 3], "note": ["a", "b", "c"]})


def test_rows_that_changed_meanwhile_are_left_out() -> None:
    window = Window(("id",))
    assert window.unaffected(CHUNK) is CHUNK
    window.pass_by(pa.table({"id": [2, 9], "note": ["new", "x"]}))
    assert window.unaffected(CHUNK)["id"].to_pylist() == [1, 3]


def test_of_a_table_that_was_emptied_meanwhile_nothing_is_left() -> None:
    window = Window(("id",), emptied=True)
    assert window.unaffected(CHUNK).num_rows == 0
    assert window.unaffected(CHUNK).schema == CHUNK.schema
