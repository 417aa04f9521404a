"""Making a failing round small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.fuzzing import shrinking
from tools.fuzzing.changes import Change
from tools.fuzzing.findings import Finding
from tools.fuzzing.plans import Leg, RoundPlan, Step
from tools.fuzzing.times import MOMENTS, sources_of
from tools.fuzzing.topics import TopicPlan

DIFFERENT = Finding("v1", "", 2, error="It differs.", cause="different")


def rows(*ids: int) -> Change:
    return Change("t0", tuple({"id": number, "v": 1, "w": 2} for number in ids))


PLAN = RoundPlan(
    seed=1,
    topics=(
        TopicPlan("t0", (("id", "bigint"), ("v", "int"), ("w", "int")), ("id",)),
        TopicPlan("t1", (("id", "bigint"),), ("id",)),
    ),
    views={"v0": "SELECT id FROM t1", "v1": "SELECT id, rank() OVER (ORDER BY v) AS r FROM t0 WHERE v = 1 AND id > 0"},
    reads={"v0": frozenset({"t1"}), "v1": frozenset({"t0"})},
    legs=(
        Leg((Step(((rows(1, 2, 3),), (rows(4),))), Step(((rows(5, 6),),))), {"one_task_rows_max": 0}),
        Leg((Step(((Change("t1", ({"id": 1},)), rows(7)),)),)),
    ),
)


def ids(plan: RoundPlan) -> list[object]:
    return [
        row["id"]
        for leg in plan.legs
        for step in leg.steps
        for commit in step.commits
        for change in commit
        for row in change.rows
        if change.topic == "t0"
    ]


Fails = Callable[[RoundPlan], bool]


@pytest.fixture
def shrunk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Fails], RoundPlan]:
    """What is left of the plan while something holds for it."""

    def shrink(fails: Fails) -> RoundPlan:
        def run(plan: RoundPlan, *_: object, **__: object) -> list[Finding]:
            return [DIFFERENT] if fails(plan) else []

        monkeypatch.setattr(shrinking, "run_plan", run)
        monkeypatch.setattr(shrinking, "analyzer", lambda _: lambda sql: sql.startswith("SELECT ") and " FROM " in sql)
        return shrinking.Shrinking(tmp_path).shrink(PLAN, DIFFERENT)[0]

    return shrink


def test_the_view_and_the_rows_that_matter_are_left(shrunk: Callable[[Fails], RoundPlan]) -> None:
    plan = shrunk(lambda plan: "rank() OVER (ORDER BY v)" in plan.views.get("v1", "") and {2, 6} <= set(ids(plan)))
    assert plan.views == {"v1": "SELECT rank() OVER (ORDER BY v) AS r FROM t0"}
    assert ids(plan) == [2, 6]
    assert len(plan.legs) == 1
    assert plan.legs[0].options == {}
    assert [(topic.name, topic.ddl) for topic in plan.topics] == [("t0", "id bigint, v int")]
    assert plan.legs[0].steps[0].commits[0][0].rows == ({"id": 2, "v": 1},)


def test_a_restart_stays_where_it_matters(shrunk: Callable[[Fails], RoundPlan]) -> None:
    plan = shrunk(lambda plan: len(plan.legs) == 2)
    assert [leg.steps for leg in plan.legs] == [(), ()]


def test_time_stays_where_its_topic_does(shrunk: Callable[[Fails], RoundPlan], monkeypatch: pytest.MonkeyPatch) -> None:
    moves = [Change(source, ({"at": MOMENTS[1]},)) for source in sources_of(["t0", "t1"])]
    legs = (Leg((Step(tuple((move,) for move in moves)),)), *PLAN.legs)
    monkeypatch.setattr("tests.unit.tools.fuzzing.test_shrinking.PLAN", replace(PLAN, legs=legs))

    def moved(plan: RoundPlan) -> set[str]:
        return {change.topic for leg in plan.legs for step in leg.steps for commit in step.commits for change in commit}

    plan = shrunk(lambda plan: {"now()", "watermark('t0')"} <= moved(plan) and "FROM t0" in plan.views.get("v1", ""))
    assert moved(plan) == {"now()", "watermark('t0')"}
    assert [topic.name for topic in plan.topics] == ["t0"]


def test_another_failure_is_not_the_same(shrunk: Callable[[Fails], RoundPlan], monkeypatch: pytest.MonkeyPatch) -> None:
    other = Finding("v1", "", 2, error="It stops.", cause="stopped")
    assert not other.like(DIFFERENT)
    assert shrunk(lambda plan: False) == PLAN
