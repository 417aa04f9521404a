"""The soak tool: it finds every process and file, computes how fast each figure grows, and draws them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tools.soak import end, main
from tools.soak_chart import svg
from tools.soak_watch import (
    DRIVER,
    JAVA,
    QUERIES,
    WRITER,
    Held,
    Kept,
    Sample,
    from_json,
    growth_of,
    look_at_files,
    look_at_tree,
)

MIB = 1 << 20


def sampled(seconds: int, *, driver: int = 100, runs: int = 5) -> Sample:
    """A sample in which the driver holds some MiB and there are some files of runs."""
    held = {DRIVER: Held(1, 2 * driver * MIB, driver * MIB, 20, 3), WRITER: Held(1, MIB, MIB, 5, 1)}
    return Sample(seconds, held, {"runs": Kept(runs, runs * MIB)}, batches=seconds, commits=2 * seconds)


def test_growth_is_the_slope_after_the_warm_up() -> None:
    warm = [sampled(seconds, driver=1000, runs=900) for seconds in range(0, 600, 60)]
    after = [sampled(seconds, driver=100 + seconds // 60) for seconds in range(600, 1200, 60)]
    found = growth_of([*warm, *after], 600.0)
    memory = {growth.name: growth for growth in found["memory, PSS"]}
    assert memory[DRIVER].per_hour == pytest.approx(60)
    assert (memory[DRIVER].first, memory[DRIVER].last) == (110, 119)
    assert memory[WRITER].per_hour == pytest.approx(0)
    assert {growth.name: growth.per_hour for growth in found["files"]} == {"runs": pytest.approx(0)}


def test_the_writer_is_no_part_of_the_application() -> None:
    assert sampled(0, driver=7).pss == 7 * MIB


def test_too_few_samples_show_no_growth() -> None:
    assert growth_of([sampled(0), sampled(60)], 0.0) == {}


def test_files_are_told_apart_by_kind(tmp_path: Path) -> None:
    store = tmp_path / "pipelines" / "soak"
    for name, size in {
        "topics/a/0/1.log": 10, "topics/a/0/0.parquet": 20, "catalog.db": 1, "catalog.db-wal": 2, "write.lock": 0,
        "pipelines/soak/runs/1.runs": 5, "pipelines/soak/runs/2.runs": 6, "pipelines/soak/store.db": 3,
        "pipelines/soak/store.db-wal": 4, "pipelines/soak/wake": 0,
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    assert store.is_dir()
    assert look_at_files(tmp_path, "soak") == {
        "segments": Kept(1, 10), "sealed segments": Kept(1, 20), "SQLite of the log": Kept(1, 1),
        "SQLite of the log (WAL)": Kept(1, 2), "others of the log": Kept(1, 0), "runs": Kept(2, 11),
        "SQLite of the store": Kept(1, 3), "SQLite of the store (WAL)": Kept(1, 4), "others of the store": Kept(1, 0),
    }  # fmt: skip


def test_processes_below_are_found_and_ended() -> None:
    command = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    started = subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.readline()
    found = look_at_tree(started.pid)
    assert {role: held.processes for role, held in found.items()} == {DRIVER: 1, QUERIES: 1}
    assert all(held.pss > 0 and held.descriptors >= 3 and held.threads >= 1 for held in found.values())
    end(started)
    assert look_at_tree(started.pid) == {DRIVER: Held()}
    for pipe in (started.stdin, started.stdout):
        assert pipe is not None
        pipe.close()


def test_a_process_that_has_ended_holds_nothing() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert look_at_tree(ended.pid) == {DRIVER: Held()}


def test_a_sample_survives_json() -> None:
    sample = sampled(3)
    assert from_json(json.loads(json.dumps(sample.to_json()))) == sample


def test_the_chart_has_a_line_for_each_figure() -> None:
    samples = [sampled(seconds) for seconds in (0, 5, 10)]
    samples[-1].held[JAVA] = Held(1, MIB, MIB, 1, 1)
    drawn = ET.fromstring(svg(samples))
    space = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in drawn.iter(f"{space}text")]
    assert "all but the writer: 101" in texts
    assert "Java: 1" in texts
    assert len(list(drawn.iter(f"{space}polyline"))) == len(list(drawn.iter(f"{space}rect"))) - 1


def test_what_was_measured_can_be_reported_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "soak.json"
    kept.write_text(json.dumps({"samples": [sampled(60 * number, runs=number).to_json() for number in range(10)]}))
    main(["--redraw", str(kept), "--chart", str(tmp_path / "soak.svg"), "--warm", "0"])
    assert "+60.0" in capsys.readouterr().out
    assert (tmp_path / "soak.svg").read_text().startswith("<svg")
