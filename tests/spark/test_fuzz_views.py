"""Random views over random changes are what raw Spark gives, after every batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.engine.reading import Snapshot
from headwater.model.position import START
from headwater.spark.catalyst.determinism import COLLECTED
from headwater.spark.planner import Planner
from headwater.testing.disk import seeded
from tools.fuzzing.candidates import choose
from tools.fuzzing.changes import Change
from tools.fuzzing.expressions import OPAQUE, Column
from tools.fuzzing.findings import Figures, Finding
from tools.fuzzing.oracle import Oracle, RawFailed
from tools.fuzzing.plans import Leg, RoundPlan, Step
from tools.fuzzing.queries import Queries
from tools.fuzzing.relations import Relation
from tools.fuzzing.seeds import plan_of, run_plan
from tools.fuzzing.times import MOMENTS, moments_at
from tools.fuzzing.topics import TopicPlan


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [4, 25])
def test_views_equal_raw_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    figures = Figures()
    plan = plan_of(seed, tmp_path / "trial", figures, views=8, steps=3)
    run_plan(plan, tmp_path / "log", figures)
    assert "\n".join(map(str, figures.findings)) == ""
    assert figures.batches >= 3
    assert figures.comparisons > figures.without_rows
    assert figures.reopened == len(plan.legs) - 1


@pytest.mark.timeout(900)
def test_views_fail_if_and_only_if_raw_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    figures = Figures()
    plan = plan_of(23, tmp_path / "trial", figures, views=16, steps=3)
    run_plan(plan, tmp_path / "log", figures)
    assert "\n".join(map(str, figures.findings)) == ""
    assert figures.failed + figures.set_aside >= 1


RANKS = RoundPlan(
    seed=1,
    topics=(TopicPlan("t", (("id", "bigint"), ("v", "int")), ("id",)),),
    views={"q": "SELECT id, 10 / v AS r FROM t"},
    reads={"q": frozenset({"t"})},
    legs=(Leg((Step(((Change("t", ({"id": 1, "v": 5}, {"id": 2, "v": 0})),),)),)),),
)


def test_a_view_that_differs_is_found(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(RANKS, views={"q": "SELECT id, rank() OVER (ORDER BY v) AS r FROM t"})
    assert run_plan(plan, tmp_path / "right", Figures()) == []
    snapshot = App.snapshot

    def without_a_row(app: App, *arguments: Any, **options: Any) -> Snapshot:
        found = snapshot(app, *arguments, **options)
        return replace(found, tables={name: table.slice(1) for name, table in found.tables.items()})

    monkeypatch.setattr(App, "snapshot", without_a_row)
    figures = Figures()
    (finding,) = run_plan(plan, tmp_path / "wrong", figures)
    assert (finding.view, len(finding.differences)) == ("q", 1)
    assert figures.findings == [finding]


MAPS = RoundPlan(
    seed=4,
    topics=(TopicPlan("t", (("id", "bigint"), ("m", "map<string,int>")), ("id",)),),
    views={"q": "SELECT m, count(*) AS c FROM t GROUP BY m"},
    reads={"q": frozenset({"t"})},
    legs=(Leg((Step(((Change("t", ({"id": 1, "m": {"q": None}}, {"id": 2, "m": {"q": 1}})),),)),)),),
)


def test_a_value_that_is_wrong_where_it_is_compiled_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_plan(MAPS, tmp_path / "right", Figures()) == []
    monkeypatch.setattr(Planner, "_with_sorted_maps", lambda planner, expression: expression)
    interpreted = replace(MAPS, seed=3)
    assert interpreted.compiled < MAPS.compiled
    (finding,) = run_plan(MAPS, tmp_path / "wrong", Figures())
    assert (finding.view, len(finding.differences)) == ("q", 2)


def test_the_order_of_a_correlated_limit_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = "SELECT o.id FROM t o WHERE o.id >= 0 AND o.g = t.g ORDER BY o.v LIMIT 1"
    rows = tuple({"id": number, "g": number % 2, "v": 9 - number} for number in range(8))
    plan = replace(
        RANKS,
        topics=(TopicPlan("t", (("id", "bigint"), ("g", "int"), ("v", "int")), ("id",)),),
        views={"q": f"SELECT t.id, ({newest}) AS n FROM t"},
        legs=(Leg((Step(((Change("t", rows),),)),)),),
    )
    assert run_plan(plan, tmp_path / "right", Figures()) == []
    content = App.snapshot

    def by_another_order(app: App, *arguments: Any, **options: Any) -> Snapshot:
        found = content(app, *arguments, **options)
        first = pa.table({"id": found.tables["q"]["id"], "n": [number % 2 for number in range(8)]})
        return replace(found, tables={"q": first})

    monkeypatch.setattr(App, "snapshot", by_another_order)
    (finding,) = run_plan(plan, tmp_path / "wrong", Figures())
    assert finding.view == "q"


def test_an_open_answer_that_no_rule_decides_is_found_when_it_is_accepted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, made = (Column("c0", OPAQUE),), "SELECT collect_list(v) AS c0 FROM t"
    monkeypatch.setattr(Queries, "query", lambda *_: Relation(made, columns, 1, frozenset({"t"}), open=True))
    rows = tuple({"id": number, "v": number} for number in range(6))

    def found(folder: Path) -> list[Finding]:
        figures = Figures()
        choose(spark, seeded(1), RANKS.topics, [(Change("t", rows),)], 1, folder, figures)
        return figures.findings

    assert found(tmp_path / "right") == []
    monkeypatch.setattr("tools.fuzzing.candidates.CORRELATED", COLLECTED)
    assert found(tmp_path / "wrong")[0].cause == "accepted"


def test_time_is_what_it_is_at_the_position(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tuple({"id": number, "at": moment} for number, moment in enumerate(MOMENTS))
    ticks = [(Change("now()", ({"at": MOMENTS[place]},)),) for place in (2, 2, 4, 7)]
    marks = [(Change("watermark('t')", ({"at": MOMENTS[place]},)),) for place in (1, 5)]
    plan = replace(
        RANKS,
        topics=(TopicPlan("t", (("id", "bigint"), ("at", "timestamp")), ("id",)),),
        views={
            "q": "SELECT id FROM t WHERE at > now() - INTERVAL 30 MINUTES",
            "r": "SELECT count(*) AS c FROM q JOIN t ON q.id = t.id WHERE t.at < watermark('t')",
        },
        reads={"q": frozenset({"t"}), "r": frozenset({"q", "t"})},
        legs=(
            Leg((Step(((Change("t", rows),), ticks[0])), Step((ticks[1],)))),
            Leg((Step((marks[0],)), Step((ticks[2], marks[1])), Step((ticks[3],)))),
        ),
    )
    figures = Figures()
    assert run_plan(plan, tmp_path / "right", figures) == []
    assert figures.timed == figures.comparisons > 8
    assert figures.without_rows < figures.comparisons / 2
    times = moments_at
    monkeypatch.setattr("tools.fuzzing.oracle.moments_at", lambda log, topics, position: times(log, topics, START))
    found = run_plan(plan, tmp_path / "wrong", Figures())
    assert found[0].view == "q"


@pytest.mark.parametrize("policy", ["fail", "dead_letter"])
def test_a_good_record_that_is_refused_or_set_aside_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    plan = replace(RANKS, policies={"q": policy})
    figures = Figures()
    assert run_plan(plan, tmp_path / "right", figures) == []
    assert (figures.failed, figures.set_aside) == ((1, 0) if policy == "fail" else (0, 1))
    monkeypatch.setattr(Oracle, "failures", lambda oracle, view, count: [""] * count)
    (finding,) = run_plan(plan, tmp_path / "wrong", Figures())
    assert finding.cause == ("good refused" if policy == "fail" else "good set aside")


def test_a_failure_that_is_missed_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(RANKS, views={"q": "SELECT id, v AS r FROM t"}, policies={"q": "fail"})
    assert run_plan(plan, tmp_path / "right", Figures()) == []

    def fails(oracle: Oracle, view: str, variant: int | None) -> pa.Table:
        raise RawFailed(view)

    monkeypatch.setattr(Oracle, "_answer", fails)
    found = run_plan(plan, tmp_path / "wrong", Figures())
    assert {finding.cause for finding in found} == {"missed"}
