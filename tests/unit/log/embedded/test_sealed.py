"""Sealed segments: Parquet that reads back as it was written, in row groups, and in which no bit changes unnoticed."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import Corrupt
from headwater.log.embedded import sealed
from headwater.log.embedded.sealed import SealedFile, sealed_schema, write_sealed
from headwater.log.embedded.segment import HEADERS
from headwater.log.maintenance import Segment

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
GROUP_ROWS = 10


def table(offsets: list[int]) -> pa.Table:
    columns = [
        pa.array([offset * 7 for offset in offsets], pa.int64()),
        pa.array([None if offset % 3 == 0 else f"name {offset}" for offset in offsets], pa.string()),
        pa.array(offsets, pa.int64()),
        pa.array([offset // 4 for offset in offsets], pa.int64()),
        pa.array([1_000_000 * offset for offset in offsets], pa.timestamp("us", "UTC")),
        pa.array([offset % 5 == 0 for offset in offsets]),
        pa.array([[("k", str(offset))] if offset % 2 else None for offset in offsets], HEADERS.type),
    ]
    return pa.table(columns, schema=sealed_schema(SCHEMA))


def write(path: Path, tables: list[pa.Table], end_offset: int | None = None) -> Segment:
    """A sealed segment, with small row groups, as the catalog would have it."""
    with patch.object(sealed, "ROW_GROUP_ROWS", GROUP_ROWS):
        size = write_sealed(path, tables, SCHEMA)
    offsets = [offset for each in tables for offset in each["_offset"].to_pylist()]
    end = end_offset if end_offset is not None else max(offsets, default=-1) + 1
    return Segment(
        1, 1, 0, min(offsets, default=0), end, 1, 1, 0, 0, "sealed", path.name, size.bytes, size.rows, size.checksum, 0
    )


def opened(path: Path, segment: Segment) -> SealedFile:
    return SealedFile(segment, path.read_bytes())


def read_all(file: SealedFile, offset: int, end: int) -> tuple[list[pa.Table], list[int]]:
    """What a reader gets that starts at an offset: the tables, and where it continued after each."""
    tables, steps = [], []
    while offset < end and (found := file.read(offset, file.columns)) is not None:
        tables.append(found[0])
        offset = found[1]
        steps.append(offset)
    return tables, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "segment.parquet"


@settings(max_examples=40)
@given(st.lists(st.integers(0, 35), max_size=6))
def test_what_was_written_is_read_however_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    path = tmp_path_factory.mktemp("sealed") / "segment.parquet"
    total = sum(sizes)
    bounds = [sum(sizes[:index]) for index in range(len(sizes) + 1)]
    tables = [table(list(range(bounds[index], bounds[index + 1]))) for index in range(len(sizes))]
    segment = write(path, tables)
    file = opened(path, segment)
    assert segment.rows == total
    assert segment.bytes == path.stat().st_size
    read, steps = read_all(file, 0, total)
    assert pa.concat_tables([*read, table([])]).equals(table(list(range(total))))
    assert all(len(each) == GROUP_ROWS for each in read[:-1])
    assert len(file.groups) == max(len(read), 0)
    assert not steps or steps[-1] == total


def test_reading_begins_in_the_row_group_that_has_the_offset(path: Path) -> None:
    file = opened(path, write(path, [table(list(range(25)))]))
    for offset in range(25):
        found = file.read(offset, ["_offset"])
        assert found is not None
        offsets = found[0]["_offset"].to_pylist()
        assert offset in offsets
        assert offsets[0] == offset // GROUP_ROWS * GROUP_ROWS
        assert found[1] == min(25, offsets[0] + GROUP_ROWS)
    assert file.read(25, ["_offset"]) is None


def test_where_records_are_missing_reading_goes_on_behind_them(path: Path) -> None:
    kept = list(range(3, 40, 3))
    file = opened(path, write(path, [table(kept)], end_offset=50))
    for offset in range(50):
        found = file.read(offset, ["_offset"])
        if offset > kept[-1]:
            assert found is None
            continue
        assert found is not None
        wanted = next(each for each in kept if each >= offset)
        assert wanted in found[0]["_offset"].to_pylist()
        assert found[1] > wanted
    last = file.read(kept[-1], ["_offset"])
    assert last is not None
    assert last[1] == 50


def test_only_the_columns_asked_for_are_read(path: Path) -> None:
    file = opened(path, write(path, [table([0, 1])]))
    found = file.read(0, ["name", "_offset"])
    assert found is not None
    assert found[0].column_names == ["name", "_offset"]
    assert file.columns == sealed_schema(SCHEMA).names


def test_other_tools_read_the_file(path: Path) -> None:
    write(path, [table(list(range(25)))])
    assert pq.read_table(path).equals(table(list(range(25))))


def test_an_empty_segment_is_a_file_like_any_other(path: Path) -> None:
    file = opened(path, write(path, [], end_offset=9))
    assert file.read(0, file.columns) is None
    assert list(file.groups) == []
    assert pq.read_table(path).num_rows == 0


def test_every_flipped_bit_is_noticed_and_the_row_group_named(path: Path) -> None:
    segment = write(path, [table(list(range(25)))])
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        found = damage(segment, bytes(damaged))
        assert len(found) == 1
        assert (found[0].first, found[0].last) in [(0, 24), (0, 9), (10, 19), (20, 24)]
        assert found[0].segment == "segment.parquet"


def damage(segment: Segment, content: bytes) -> list[Corrupt]:
    """Every damage that a reader of the whole file meets: of the footer, or of row groups."""
    try:
        file = SealedFile(segment, content)
    except Corrupt as found:
        return [found]
    errors = []
    for group in file.groups:
        try:
            file.group(group)
        except Corrupt as found:
            errors.append(found)
    return errors


def test_damage_in_one_row_group_leaves_the_others_readable(path: Path) -> None:
    segment = write(path, [table(list(range(25)))])
    content = bytearray(path.read_bytes())
    begin = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    content[begin + 20] ^= 1
    file = SealedFile(segment, bytes(content))
    with pytest.raises(Corrupt) as caught:
        file.read(12, file.columns)
    assert (caught.value.first, caught.value.last) == (10, 19)
    assert file.read(0, ["_offset"]) is not None
    assert file.read(20, ["_offset"]) is not None


def test_a_file_of_another_length_is_damaged(path: Path) -> None:
    segment = write(path, [table(list(range(25)))])
    content = path.read_bytes()
    for other in (b"", content[:-1], content[1:], content + b"\0", content[: len(content) // 2]):
        with pytest.raises(Corrupt) as caught:
            SealedFile(segment, other)
        assert (caught.value.first, caught.value.last) == (0, 24)


def test_another_file_of_the_same_length_is_damaged(path: Path, tmp_path: Path) -> None:
    segment = write(path, [table(list(range(25)))])
    with pytest.raises(Corrupt):
        SealedFile(segment, bytes(segment.bytes))
