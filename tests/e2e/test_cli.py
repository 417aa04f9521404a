"""The program `headwater` as a shell runs it: pipes, Ctrl-C, kills, and a reader that goes away."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.model.position import START

HEADWATER = str(Path(sys.executable).parent / "headwater")
SECONDS_MAX = 60


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data", upkeep=False) as opened:
        opened.create("orders", "id bigint, note string", key="id", partitions=2)
        yield opened


def run(*arguments: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [HEADWATER, "log", *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, timeout=SECONDS_MAX, check=False)


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    command = [HEADWATER, "log", *map(str, arguments)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as program:
        try:
            yield program
        finally:
            program.kill()


def lines(first: int, end: int) -> bytes:
    return b"".join(b'{"id": %d}\n' % number for number in range(first, end))


def ids(log: EmbeddedLog) -> list[int]:
    return sorted(log.scan("orders", columns=["id"])["id"].to_pylist())


def wait_for_a_commit(log: EmbeddedLog) -> None:
    assert log.wait(START, timedelta(seconds=SECONDS_MAX)) > START


def test_records_come_through_pipes(log: EmbeddedLog) -> None:
    appended = run("append", log.directory, "orders", given=lines(0, 25_000))
    assert (appended.returncode, appended.stdout) == (0, b"")
    assert appended.stderr.startswith(b"Appended 25,000 records to orders: position ")
    log.create("copy", "id bigint, note string")
    rows = run("read", log.directory, "orders", "--rows")
    assert run("append", log.directory, "copy", "-", given=rows.stdout).returncode == 0
    assert sorted(log.scan("copy")["id"].to_pylist()) == ids(log) == list(range(25_000))


def test_parquet_comes_through_a_pipe(log: EmbeddedLog) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2]}), sink)
    appended = run("append", log.directory, "orders", "--format", "parquet", given=sink.getvalue().to_pybytes())
    assert appended.returncode == 0
    assert ids(log) == [1, 2]


def test_a_line_that_does_not_fit_is_an_exit_code_and_no_stack_trace(log: EmbeddedLog) -> None:
    appended = run("append", log.directory, "orders", given=b'{"id": 1}\n{"id": "x"}\n')
    assert appended.returncode == 1
    assert b"error: Line 2 does not fit topic 'orders'" in appended.stderr
    assert b"Traceback" not in appended.stderr
    assert ids(log) == []


def test_a_stream_that_pauses_is_appended_meanwhile(log: EmbeddedLog) -> None:
    with running("append", log.directory, "orders") as program:
        assert program.stdin is not None
        program.stdin.write(lines(0, 3))
        program.stdin.flush()
        wait_for_a_commit(log)
        assert ids(log) == [0, 1, 2]


def test_following_shows_what_others_append_and_ends_with_ctrl_c(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}])
    with running("read", log.directory, "orders", "--follow", "--json") as program:
        assert program.stdout is not None
        assert json.loads(program.stdout.readline())["value"]["id"] == 1
        log.append("orders", [{"id": 2}])
        assert json.loads(program.stdout.readline())["value"]["id"] == 2
        program.send_signal(signal.SIGINT)
        rest, errors = program.communicate(timeout=SECONDS_MAX)
        assert (program.returncode, rest, errors) == (130, b"", b"")


def test_following_shows_columns_that_were_added_meanwhile(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}])
    with running("read", log.directory, "orders", "--follow", "--rows", "--limit", 2) as program:
        assert program.stdout is not None
        assert json.loads(program.stdout.readline()) == {"id": 1, "note": None}
        log.alter("orders", schema="id bigint, note string, amount decimal(5,2)")
        log.append("orders", [{"id": 2, "amount": "1.50"}])
        rest, errors = program.communicate(timeout=SECONDS_MAX)
        assert (program.returncode, errors) == (0, b"")
        assert json.loads(rest) == {"id": 2, "note": None, "amount": "1.50"}


def test_a_reader_that_goes_away_ends_the_program_quietly(log: EmbeddedLog) -> None:
    # More than a pipe holds, so that the program has to notice.
    log.append("orders", [{"id": number, "note": "x" * 100} for number in range(20_000)])
    with running("read", log.directory, "orders") as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        assert program.wait(SECONDS_MAX) == 141
        assert program.stderr.read() == b""


def test_a_reader_that_took_nothing_ends_the_program_quietly(log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}])
    with running("topics", log.directory) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.wait(SECONDS_MAX) == 141
        assert program.stderr.read() == b""


def test_ctrl_c_while_appending_tells_how_far_it_got(log: EmbeddedLog) -> None:
    with running("append", log.directory, "orders") as program:
        assert program.stdin is not None
        program.stdin.write(lines(0, 3))
        program.stdin.flush()
        wait_for_a_commit(log)
        program.send_signal(signal.SIGINT)
        assert program.stderr is not None
        errors = program.stderr.read()
        assert program.wait(SECONDS_MAX) == 130
    assert errors.splitlines() == [
        b"Appended 3 records, up to position 1; nothing after them.",
        b"hint: Continue with --skip-records 3.",
    ]


def test_ctrl_c_at_a_question_is_no_answer(log: EmbeddedLog) -> None:
    with running("drop", log.directory, "orders") as program:
        assert program.stderr is not None
        asked = b""
        while not asked.endswith(b"[y/N]:"):
            asked += program.stderr.read(1)
        program.send_signal(signal.SIGINT)
        rest = program.stderr.read()
        assert (program.wait(SECONDS_MAX), rest.strip()) == (130, b"")
    assert [topic.name for topic in log.topics()] == ["orders"]


def test_an_append_that_was_killed_goes_on_without_loss_or_duplicate(log: EmbeddedLog, tmp_path: Path) -> None:
    with running("append", log.directory, "orders", "--resume", "load") as program:
        assert program.stdin is not None
        program.stdin.write(lines(0, 12_345))
        program.stdin.flush()
        wait_for_a_commit(log)
        program.send_signal(signal.SIGKILL)
        program.wait(SECONDS_MAX)
    (tmp_path / "all.jsonl").write_bytes(lines(0, 30_000))
    resumed = run("append", log.directory, "orders", tmp_path / "all.jsonl", "--resume", "load", "--json")
    assert resumed.returncode == 0
    report = json.loads(resumed.stdout)
    assert report["skipped"] > 0
    assert report["skipped"] + report["records"] == 30_000
    assert ids(log) == list(range(30_000))
