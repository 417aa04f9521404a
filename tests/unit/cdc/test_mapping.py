"""Files that are mapped: as many as there are, and none of them is open."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headwater.cdc.mapping import MappedFiles


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_mapped_file_is_not_open_and_can_be_read_while_it_is_trimmed(tmp_path: Path) -> None:
    rows = pa.table({"n": range(100_000)})
    files = [tmp_path / f"{number}.arrow" for number in range(20)]
    for file in files:
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
    before = open_files()
    mapped = MappedFiles()
    tables = [mapped.read(file) for file in files]
    assert open_files() == before
    assert mapped.read(files[0]) is tables[0]
    with mapped.trimmed():
        for _ in range(20):
            assert all(table.equals(rows) for table in tables)
    mapped.close()
    for file in files:
        file.unlink()
    assert all(table.equals(rows) for table in tables), "tables that were read stay"
