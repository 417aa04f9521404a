"""A transaction of two million rows: captured whole, in little memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater as hw
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import catch_up
from tests.postgres.servers import Server
from tests.postgres.torture import ROOT

ROWS = 2_000_000
MEMORY_BYTES_MAX = 500 << 20


def memory(pid: int) -> dict[str, int]:
    """Peak of resident memory (mapped files included), and resident memory now, in bytes."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(fields[name].split()[0]) << 10 for name in ("VmHWM", "RssAnon", "RssFile")}


@pytest.mark.timeout(1800)
def test_a_transaction_of_two_million_rows(
    server: Server,
    share: int,
    database: str,
    source: psycopg.Connection[Any],
    log: Log,
    make: Make,
    tmp_path: Path,
) -> None:
    rows = ROWS // share
    source.execute("CREATE TABLE big (id int8 PRIMARY KEY, customer_id int8, amount numeric(10,2), note text)")
    source.execute("CREATE TABLE done (id int8 PRIMARY KEY)")
    capture = make("*", name="big")
    catch_up(capture, source)
    log.close()
    with source.transaction():
        source.execute(
            "INSERT INTO big SELECT g, g %% 1000, g * 0.01, 'note ' || g FROM generate_series(1, %s) g", (rows,)
        )
        source.execute("INSERT INTO done VALUES (1)")
    victim = [sys.executable, str(Path(__file__).with_name("victim.py")), server.url(database)]
    process = subprocess.Popen(
        [*victim, str(tmp_path / "log"), str(tmp_path / "capture"), "big"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        stdout=subprocess.DEVNULL,
    )
    anonymous = resident = 0
    try:
        with hw.open(tmp_path / "log", upkeep=False) as reader:
            deadline = time.monotonic() + 1500
            while not reader.scan("big.done").num_rows:
                assert process.poll() is None
                assert time.monotonic() < deadline
                used = memory(process.pid)
                anonymous, resident = max(anonymous, used["RssAnon"]), max(resident, used["VmHWM"])
                time.sleep(0.05)
            process.kill()
            process.wait()
            ends = reader.offsets("big.big")
            assert ends == {0: (0, rows)}
            batches = reader.batches("big.big", columns=["id", "_commit"])
            commits = {commit for batch in batches for commit in batch.records["_commit"].unique().to_pylist()}
            assert commits == set(reader.scan("big.done")["_commit"].to_pylist())
    finally:
        process.kill()
        process.wait()
    print(f"peak of memory {resident >> 20} MiB with mapped files, {anonymous >> 20} MiB without")
    assert resident < MEMORY_BYTES_MAX
