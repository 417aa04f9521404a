"""Input is cut into batches, each record knows its place, and a pipe that pauses holds nothing back."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.cli import inputs
from headwater.cli.inputs import STDIN, check_file, format_of, json_batches, parquet_batches
from headwater.errors import UsageError


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_blank_lines_are_no_records_but_count_as_lines(tmp_path: Path) -> None:
    (batch,) = json_batches(written(tmp_path / "a.jsonl", b'{"a":1}\n\n  \r\n{"a":2}\n{"a":3}'))
    assert batch.rows == b'{"a":1}\n{"a":2}\n{"a":3}'
    assert list(batch.numbers) == [1, 4, 5]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    (batch,) = json_batches(written(tmp_path / "a.jsonl", b"\xef\xbb\xbf{}\n"))
    assert batch.rows == b"{}"


def test_an_empty_file_has_no_batches(tmp_path: Path) -> None:
    assert list(json_batches(written(tmp_path / "a.jsonl", b"\n\n"))) == []


def test_batches_are_full_whatever_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BATCH_RECORDS_MAX", 10)
    monkeypatch.setattr(inputs, "_CHUNK_BYTES", 7)
    lines = [b'{"number":%d}' % number for number in range(25)]
    batches = list(json_batches(written(tmp_path / "a.jsonl", b"\n".join(lines)), skip=3))
    assert [len(batch.numbers) for batch in batches] == [10, 10, 2]
    assert b"\n".join(bytes(batch.rows) for batch in batches).split(b"\n") == lines[3:]
    assert [batch.numbers[0] for batch in batches] == [4, 14, 24]
    assert batches[-1].total == (tmp_path / "a.jsonl").stat().st_size


def test_a_batch_is_cut_by_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BATCH_BYTES_MAX", 5)
    batches = list(json_batches(written(tmp_path / "a.jsonl", b"[1]\n[2]\n[3]\n")))
    assert [batch.rows for batch in batches] == [b"[1]\n[2]", b"[3]"]


def test_a_pipe_that_pauses_gives_what_it_has(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    taken = threading.Event()

    def write() -> None:
        with pipe.open("wb", buffering=0) as out:
            out.write(b'{"a":1}\n{"a":')
            # The other half of the line comes only once the first line was handed on.
            assert taken.wait(30)
            out.write(b"2}\n")

    writer = threading.Thread(target=write)
    writer.start()
    batches = json_batches(pipe)
    first = next(batches)
    taken.set()
    rest = list(batches)
    writer.join()
    assert (first.rows, first.total) == (b'{"a":1}', None)
    assert [(batch.rows, list(batch.numbers)) for batch in rest] == [(b'{"a":2}', [2])]


def test_parquet_is_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BATCH_RECORDS_MAX", 4)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(10)}), path)
    batches = list(parquet_batches(path, skip=5))
    tables = [batch.rows for batch in batches if isinstance(batch.rows, pa.Table)]
    assert [table["a"].to_pylist() for table in tables] == [[5, 6, 7], [8, 9]]
    assert [list(batch.numbers) for batch in batches] == [[6, 7, 8], [9, 10]]
    assert (batches[-1].done, batches[-1].total) == (10, 10)


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    for content in (b"no", b"nonsense and more of it"):
        with pytest.raises(UsageError, match="is not a Parquet file that can be read: ") as refused:
            list(parquet_batches(written(tmp_path / "a.parquet", content)))
        assert refused.value.message.endswith(".")
        assert not refused.value.message.endswith("..")


def test_the_ending_tells_the_format_unless_it_is_given() -> None:
    assert format_of(Path("a.NDJSON"), None) == "jsonl"
    assert format_of(Path("a.parquet"), None) == "parquet"
    assert format_of(Path("a.parquet"), "jsonl") == "jsonl"
    assert format_of(STDIN, None) == "jsonl"
    with pytest.raises(UsageError, match="does not say which format"):
        format_of(Path("a.txt"), None)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("a.csv", "COPY (FROM 'a.csv') TO 'a.parquet'"),
        ("a.CSV.gz", "duckdb"),
        ("a.jsonl.gz", "zcat a.jsonl.gz | headwater log append DIR TOPIC"),
        ("a.parquet.zst", "zstdcat a.parquet.zst | headwater log append DIR TOPIC --format parquet"),
    ],
)
def test_other_formats_are_refused_with_a_way_to_convert_them(name: str, way: str) -> None:
    with pytest.raises(UsageError, match="takes JSON lines and Parquet") as refused:
        format_of(Path(name), None)
    assert way in refused.value.hint


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    check_file(STDIN)
    with pytest.raises(UsageError, match="There is no file"):
        check_file(tmp_path / "a.jsonl")
    with pytest.raises(UsageError, match="is a directory"):
        check_file(tmp_path)
