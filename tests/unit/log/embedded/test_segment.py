"""Frames: what was written is what is read, and no bit can change unnoticed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import Corrupt
from headwater.log.embedded.segment import (
    DELETED,
    HAS_COMMITS,
    HAS_DELETED,
    HAS_HEADERS,
    HEADER,
    HEADERS,
    MAGIC,
    Frame,
    encode_frame,
    read_body,
    read_header,
    stored_schema,
    walk_frames,
)

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])

runs = st.lists(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.text()), min_size=1), min_size=1)
numbers = st.integers(0, 2**63 - 1)


def batch(rows: list[tuple[int, str | None]], flags: int = 0) -> pa.RecordBatch:
    columns: list[pa.Array] = [
        pa.array([number for number, _ in rows], pa.int64()),
        pa.array([name for _, name in rows]),
    ]
    columns[1] = columns[1].cast(pa.string())
    if flags & HAS_DELETED:
        columns.append(pa.array([number % 2 == 0 for number, _ in rows]))
    if flags & HAS_HEADERS:
        columns.append(pa.array([[("k", str(number))] for number, _ in rows], HEADERS.type))
    if flags & HAS_COMMITS:
        columns.append(pa.array(range(len(rows)), pa.int64()))
    return pa.record_batch(columns, schema=stored_schema(SCHEMA, flags))


def frame_bytes(rows: pa.RecordBatch, offset: int = 0, commit: int = 1, at: int = 0, version: int = 0) -> bytes:
    return b"".join(encode_frame(rows, schema_version=version, offset=offset, commit=commit, at=at))


def segment_bytes(*batches: pa.RecordBatch, offset: int = 0) -> tuple[bytes, int]:
    """Frames one behind the other, and the end offset."""
    content = b""
    for number, rows in enumerate(batches):
        content += frame_bytes(rows, offset, commit=number + 1)
        offset += rows.num_rows
    return content, offset


def walk(content: bytes, end_offset: int, *, offset: int = 0, complete: bool = True) -> list[Frame]:
    return list(walk_frames(memoryview(content), complete=complete, segment="s", offset=offset, end_offset=end_offset))


THREE = [batch([(1, "one"), (2, None)]), batch([(3, "three")]), batch([(4, "four"), (5, "five"), (6, None)])]


@given(runs, numbers.filter(lambda offset: offset < 2**62), st.integers(0, 7))
def test_what_was_written_is_read(given_runs: list[list[tuple[int, str | None]]], offset: int, flags: int) -> None:
    batches = [batch(rows, flags) for rows in given_runs]
    content, end = segment_bytes(*batches, offset=offset)
    frames = walk(content, end, offset=offset)
    read = [read_body(pa.py_buffer(content), frame, stored_schema(SCHEMA, frame.flags)) for frame in frames]
    assert read == batches
    assert [frame.flags for frame in frames] == [flags] * len(batches)
    assert [frame.commit for frame in frames] == list(range(1, len(batches) + 1))
    assert frames[0].offset == offset
    assert frames[-1].offset + frames[-1].rows == end
    assert frames[-1].end == len(content)


@given(numbers, numbers, st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1))
def test_a_header_holds_every_number_it_may_have_to(offset: int, commit: int, at: int, version: int) -> None:
    content = frame_bytes(batch([(1, "x")]), offset, commit, at, version)
    frame = read_header(memoryview(content), 0)
    assert frame is not None
    assert (frame.offset, frame.commit, frame.at, frame.schema_version, frame.rows) == (offset, commit, at, version, 1)


def test_frames_are_aligned_so_that_nothing_is_copied() -> None:
    assert HEADER.size % 8 == 0
    content, end = segment_bytes(*THREE)
    for frame in walk(content, end):
        assert frame.start % 8 == 0
        assert frame.body % 8 == 0
    buffer = pa.py_buffer(content)
    column = read_body(buffer, walk(content, end)[0], stored_schema(SCHEMA, 0)).column("id")
    address = column.buffers()[1].address
    assert buffer.address <= address < buffer.address + buffer.size


def test_a_body_is_in_the_columns_of_its_time_all_nullable() -> None:
    assert stored_schema(SCHEMA, 0).names == ["id", "name"]
    assert stored_schema(SCHEMA, HAS_DELETED | HAS_HEADERS).names == ["id", "name", "_deleted", "_headers"]
    assert all(field.nullable for field in stored_schema(SCHEMA, 3))
    assert stored_schema(SCHEMA, HAS_DELETED).field("_deleted").equals(DELETED)


@pytest.mark.parametrize("size", range(0, len(segment_bytes(*THREE)[0]), 8))
def test_a_buffer_that_ends_inside_a_frame_gives_the_whole_frames_before_it(size: int) -> None:
    content, end = segment_bytes(*THREE)
    expected = [frame for frame in walk(content, end) if frame.end <= size]
    assert walk(content[:size], end, complete=False) == expected


def test_a_buffer_may_end_inside_a_header_and_inside_its_first_word() -> None:
    content, end = segment_bytes(*THREE)
    second = walk(content, end)[1].start
    for more in (1, 2, 3, 4, 5, HEADER.size - 1, HEADER.size):
        assert len(walk(content[: second + more], end, complete=False)) == 1


@pytest.mark.parametrize("lost", [1, 7, 8, HEADER.size, HEADER.size + 8])
def test_a_complete_buffer_that_ends_inside_a_frame_is_damage(lost: int) -> None:
    content, end = segment_bytes(*THREE)
    with pytest.raises(Corrupt) as caught:
        walk(content[:-lost], end)
    assert (caught.value.first, caught.value.last) == (3, 5)


def test_every_flipped_bit_is_noticed_and_the_frame_named() -> None:
    content, end = segment_bytes(*THREE)
    frames = walk(content, end)
    for position in range(len(content)):
        hit = next(frame for frame in frames if position < frame.end)
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            with pytest.raises(Corrupt) as caught:
                walk(bytes(damaged), end)
            assert caught.value.segment == "s"
            assert caught.value.first == hit.offset
            assert hit.offset <= caught.value.last < end
            assert caught.value.reason


def test_frames_before_the_damage_are_given_out_first() -> None:
    content, end = segment_bytes(*THREE)
    damaged = bytearray(content)
    damaged[-1] ^= 1
    frames = walk_frames(memoryview(bytes(damaged)), complete=True, segment="s", offset=0, end_offset=end)
    assert [next(frames).offset, next(frames).offset] == [0, 2]
    with pytest.raises(Corrupt):
        next(frames)


def test_damage_is_noticed_before_the_buffer_is_complete() -> None:
    content, end = segment_bytes(*THREE)
    damaged = bytearray(content[: HEADER.size])
    damaged[0] ^= 1
    with pytest.raises(Corrupt):
        walk(bytes(damaged), end, complete=False)


def test_a_frame_in_the_wrong_place_is_damage() -> None:
    content, end = segment_bytes(*THREE)
    frames = walk(content, end)
    swapped = content[frames[1].start : frames[1].end] + content[frames[0].start : frames[0].end]
    with pytest.raises(Corrupt) as caught:
        walk(swapped, 3)
    assert "offset 2" in caught.value.reason
    with pytest.raises(Corrupt):
        walk(content[frames[0].end :], end, offset=0)


def test_a_stranger_s_bytes_are_damage() -> None:
    for stranger in (b"\0" * 64, b"PAR1" * 20, MAGIC + b"\xff" * 80):
        with pytest.raises(Corrupt):
            walk(stranger, 10)
    assert walk(b"", 0) == []


def test_there_is_no_header_where_there_is_none() -> None:
    content, _ = segment_bytes(*THREE)
    assert read_header(memoryview(content), 8) is None
    assert read_header(memoryview(content), len(content) - 8) is None
