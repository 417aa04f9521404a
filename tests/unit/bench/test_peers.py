"""How peers are asked, judged and shown; the peers themselves are not installed here."""

from __future__ import annotations

import io
import itertools
import json
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from bench.engine.peers import installing
from bench.engine.peers.answering import CanNot, Printed, Topic, describe, netted, newest, sentence
from bench.engine.peers.chart import svg
from bench.engine.peers.comparison import OURS, Comparison, Standing
from bench.engine.peers.installing import PEERS, Environment, NotInstalled, Peer, install
from bench.engine.peers.running import Asking, Field, ask, judged, waited
from bench.engine.peers.trickle import Trickle, drop_parquet
from bench.engine.workloads import Table, Workload

FAKE = Peer("fake", "Fake", "tests.unit.bench.fake_peer", "none.txt")
HERE = Environment(Path(sys.executable), {})
EXPECTED = pa.table({"k": [1, 2], "n": [10, 20]})
REFUSED = "Windows are not supported."


def _folder(tmp_path: Path, sql: str) -> Path:
    source = tmp_path / "input"
    (source / "items").mkdir(parents=True)
    pq.write_table(pa.table({"k": [1, 2, 2], "seq": [1, 2, 3]}), source / "items" / "0000.parquet")
    describe("counts", sql, {"items": Topic({"k": "bigint"}, None)}, source)
    return source


def _asked(tmp_path: Path, sql: str, seconds_max: float = 60.0) -> Standing:
    source = _folder(tmp_path, sql)
    printed = ask(FAKE, HERE, Asking("counts", source, source, tmp_path / "fake"), seconds_max)
    return judged("Fake", "counts", printed, tmp_path / "fake" / "view.parquet", EXPECTED)


def test_an_answer_is_judged(tmp_path: Path) -> None:
    standing = _asked(tmp_path, "answer")
    assert standing.rate == 1.5
    assert (standing.rows, standing.seconds, standing.start_seconds, standing.differing) == (3, 2.0, 1.0, 0)
    assert (standing.versions, standing.settings, standing.note) == (
        {"fake": "1.0"},
        {"speed": "high"},
        "from thin air",
    )
    assert list((tmp_path / "fake").glob("work-*")) == []


def test_a_wrong_answer_has_no_rate(tmp_path: Path) -> None:
    _asked(tmp_path, "answer")
    source = tmp_path / "input"
    printed = ask(FAKE, HERE, Asking("counts", source, source, tmp_path / "again"), 60.0)
    truth = pa.table({"k": [1, 2, 3], "n": [10, 21, 5]})
    standing = judged("Fake", "counts", printed, tmp_path / "again" / "view.parquet", truth)
    assert standing.differing == 3
    assert standing.rate is None
    assert standing.text == "WRONG: 3 rows differ"
    other = judged("Fake", "counts", printed, tmp_path / "again" / "view.parquet", pa.table({"k": [1], "total": [1]}))
    assert other.error == "its view has no column total"


def test_what_a_system_refuses_is_said_in_its_own_words(tmp_path: Path) -> None:
    assert _asked(tmp_path, "refuse").error == REFUSED


def test_an_end_without_an_answer_is_said(tmp_path: Path) -> None:
    assert _asked(tmp_path, "crash").error == "ended with code 3 and no answer: Killed by the system"


def test_a_peer_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    assert _asked(tmp_path, "sleep", seconds_max=1.0).error == "not done after 1 s"


def test_a_peer_that_can_not_be_installed_says_so_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def columns(dice: np.random.Generator, rows: int) -> dict[str, pa.Array]:
        return {"k": pa.array(dice.integers(0, 3, rows))}

    workload = Workload("counts", "counts", {"items": Table("k bigint", None, 1.0, columns)}, "answer", 1.0, 10)
    broken = Peer("broken", "Broken", "none", "broken.txt")

    def found(peer: Peer, messages: Console) -> Environment:
        if peer is broken:
            raise NotInstalled("not installed: no network")
        return HERE

    monkeypatch.setattr("bench.engine.peers.running.install", found)
    (tmp_path / "input").mkdir()
    field = Field({"broken": broken, "fake": FAKE}, 60.0, Console(quiet=True))
    first, second = field.measure(workload, 10, tmp_path, EXPECTED)
    assert first.text == "cannot: not installed: no network"
    assert second.differing == 0
    assert not second.error


def test_an_installation_that_fails_leaves_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(installing, "HERE", tmp_path)
    (tmp_path / "none.txt").write_text("# nothing\nno-such-package==1.0\n")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(NotInstalled, match="python was not found"):
        install(FAKE, Console(quiet=True))
    assert not (tmp_path / "headwater-bench" / "no-such-package-1.0" / "ready").exists()


def test_every_peer_pins_what_it_installs() -> None:
    for peer in PEERS.values():
        for file in filter(None, [peer.requirements, peer.jars]):
            lines = [line for line in (installing.HERE / file).read_text().splitlines() if not line.startswith("#")]
            assert lines
            assert all(("==" in line) if file == peer.requirements else line.count(":") == 2 for line in lines)


def test_changes_are_netted() -> None:
    changes = pa.table({"k": ["a", "a", "b", "b", None, None], "weight": [1, 1, 1, -1, 2, -1]})
    assert sorted(netted(changes, "weight")["k"].to_pylist(), key=str) == [None, "a", "a"]
    with pytest.raises(CanNot, match="retracted"):
        netted(pa.table({"k": [1], "weight": [-1]}), "weight")


def test_the_newest_rows_are_found() -> None:
    versions = pa.table({"k": [1, 2, 1], "rows": [[[1]], [], [[2, 3]]], "batch": [0, 0, 1]})
    rows = sorted(newest(versions, "k", "batch").to_pylist(), key=lambda row: row["k"])
    assert rows == [{"k": 1, "rows": [[2, 3]]}, {"k": 2, "rows": []}]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("\n  Not  supported.\nat line 2", "Not supported."),
        (f"First. {'long ' * 60}", "First."),
        ("x" * 300, f"{'x' * 236} ..."),
        ("", ""),
    ],
)
def test_an_error_is_cut_to_a_sentence(message: str, said: str) -> None:
    assert sentence(message) == said


@pytest.fixture
def comparison() -> Comparison:
    titles = {"sum": "count + sum", "top": "top 10 | per group"}
    return Comparison(
        titles,
        [
            Standing(OURS, "sum", rows=1000, seconds=1.0),
            Standing("Slow", "sum", rows=100, seconds=1.0, versions={"slow": "2"}, settings={"cores": "2"}, note="CSV"),
            Standing("Odd", "sum", rows=1000, seconds=1.0, differing=7),
            Standing(OURS, "top", rows=1000, seconds=2.0),
            Standing("Slow", "top", error="no [WINDOWS] here"),
            Standing("Odd", "top", error="no [WINDOWS] here"),
        ],
    )


def test_the_table_has_figures_reasons_and_settings(comparison: Comparison) -> None:
    assert comparison.grid == [
        ["line", OURS, "Slow", "Odd"],
        ["count + sum", "1,000 rows/s", "100 rows/s (0.1 x, 100 rows)", "WRONG: 7 rows differ"],
        ["top 10 | per group", "500 rows/s", "cannot (1)", "cannot (1)"],
    ]
    text = comparison.to_markdown()
    assert "| top 10 \\| per group | 500 rows/s | cannot (1) | cannot (1) |" in text
    assert "(1) no [WINDOWS] here" in text
    assert "Slow: slow 2, cores 2, CSV" in text


def test_the_terminal_shows_what_markdown_does(comparison: Comparison) -> None:
    console = Console(width=200, file=io.StringIO(), record=True)
    comparison.print(console)
    text = console.export_text()
    for said in ("1,000 rows/s", "WRONG: 7 rows differ", "cannot (1)", "(1) no [WINDOWS] here", "slow 2"):
        assert said in text


def test_values_are_plain(comparison: Comparison) -> None:
    values = json.loads(json.dumps(comparison.to_values()))
    assert [standing["rate"] for standing in values["standings"]] == [1000.0, 100.0, None, 500.0, None, None]
    assert values["titles"]["sum"] == "count + sum"


def test_the_chart_has_a_bar_for_every_figure(comparison: Comparison) -> None:
    root = ET.fromstring(svg(comparison))
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text for element in root.iter(f"{space}text")]
    widths = [float(bar.attrib["width"]) for bar in root.iter(f"{space}rect") if bar.attrib.get("height") == "13"]
    assert len(widths) == 3
    assert widths[0] > widths[2] > widths[1] > 0
    assert {"1,000", "100", "500", "Odd: wrong result", "Slow: cannot", "top 10 | per group"} <= set(texts)


def test_a_chart_without_figures_is_a_chart() -> None:
    empty = Comparison({"sum": "sum"}, [Standing("Odd", "sum", error="no")])
    assert "Odd: cannot" in svg(empty)


class Published(Trickle):
    """Every batch is in the result when it is waited for, a tick of the clock per group."""

    def __init__(self, batches: int) -> None:
        super().__init__(batches)
        self.sent: list[int] = []
        self.counts: Counter[int] = Counter()

    def send(self, number: int, rows: pa.Table) -> None:
        self.sent.append(number)
        self.counts.update(value % 5 for value in rows["k"].to_pylist())

    def _wait(self, rows: int) -> float:
        for group, count in self.counts.items():
            self.note(group, count)
        return super()._wait(rows)


def test_small_batches_are_timed_until_the_result_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    trickled = Published(batches=4)
    monkeypatch.setattr("bench.engine.peers.trickle.now", lambda: float(next(ticks)))
    assert trickled.run(trickled.send) == [5000.0] * 4
    assert trickled.sent == list(range(19))


def test_a_batch_appears_whole_in_a_folder(tmp_path: Path) -> None:
    send = drop_parquet(tmp_path / "items")
    send(3, EXPECTED)
    assert [file.name for file in (tmp_path / "items").iterdir()] == ["0003.parquet"]
    assert pq.read_table(tmp_path / "items").equals(EXPECTED)


def test_small_batches_are_shown_and_not_drawn(comparison: Comparison) -> None:
    waiting = waited("Slow", Printed(milliseconds=[10.0, 20.0, 30.0], start_seconds=4.0))
    assert (waiting.median, waiting.note, waiting.rate) == (20.0, "p99 30 ms", None)
    titles = {**comparison.titles, "latency": "small batches"}
    more = Comparison(titles, [*comparison.standings, Standing(OURS, "latency", median=5.0, note="p99 9 ms"), waiting])
    assert more.grid[-1] == ["small batches", "5 ms (p99 9 ms)", "20 ms (p99 30 ms)", ""]
    assert svg(more) == svg(comparison)
    assert waited("Odd", Printed(error="no")).error == "no"
