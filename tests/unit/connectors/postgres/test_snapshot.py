"""What can be told of a first snapshot from its files."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.connectors.postgres.snapshot import blocks_read


def test_blocks_of_chunks_that_are_whole_are_read(tmp_path: Path) -> None:
    assert blocks_read(tmp_path / "missing") == (0, 0)
    chunks = [[1, "public.orders", 0, 4096], [1, "public.orders", 4096, 5000], [2, "public.customers", 0, 10]]
    (tmp_path / "plan.json").write_text(json.dumps({"start": "0/1", "chunks": chunks, "layout": {}}))
    assert blocks_read(tmp_path) == (0, 5010)
    for name in ("1@0-1.arrow", "2@0-1.arrow", "0@0-1.part"):
        (tmp_path / name).touch()
    assert blocks_read(tmp_path) == (914, 5010)
