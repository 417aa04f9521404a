"""A failing round as a program."""

from __future__ import annotations

import ast
from math import nan

from tools.fuzzing.changes import Change
from tools.fuzzing.findings import Finding
from tools.fuzzing.plans import Leg, RoundPlan, Step
from tools.fuzzing.reproducing import plan_from, reproduction
from tools.fuzzing.topics import TopicPlan

PLAN = RoundPlan(
    seed=7,
    topics=(
        TopicPlan("t0", (("id", "bigint"), ("s", "struct<x:int,y:string>"), ("d", "decimal(8,2)")), ("id",), 2),
        TopicPlan("t1", (("id", "bigint"), ("v", "double")), ("id",), compacted=True),
    ),
    views={"v0": "SELECT id FROM t0", "v1": "SELECT 'it''s' AS c0 FROM v0"},
    reads={"v0": frozenset({"t0"}), "v1": frozenset({"t0", "v0"})},
    legs=(
        Leg((Step(((Change("t0", ({"id": 1, "s": {"x": None, "y": "a"}, "d": "1.50"},)),),), compact=True),)),
        Leg((Step(((Change("t1", ({"id": 1, "v": nan},)), Change("t0", ({"id": 1},), delete=True)),)),), {"one": 1}),
    ),
    policies={"v0": "dead_letter"},
)


def test_the_program_has_the_plan() -> None:
    text = reproduction(PLAN, Finding("v0", "", 1, error="It fails.", cause="failed"))
    assert "Seed 7: error (failed) of view v0 after batch 1." in text
    found: dict[str, object] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = compile(ast.Expression(node.value), "plan", "eval")
            found[node.targets[0].id] = eval(value, {"nan": nan})
    plan = plan_from(7, found["TOPICS"], found["VIEWS"], found["POLICIES"], found["LEGS"])  # type: ignore[arg-type]
    assert plan.topics == PLAN.topics
    assert plan.views == PLAN.views
    assert plan.policies == PLAN.policies
    assert repr(plan.legs) == repr(PLAN.legs)
    assert plan.reads["v1"] >= PLAN.reads["v1"]


def test_what_a_view_needs_and_what_is_left_without_it() -> None:
    assert list(PLAN.needed(["v1"])) == ["v0", "v1"]
    assert list(PLAN.needed(["v0"])) == ["v0"]
    assert list(PLAN.without(["v0"])) == []
    assert list(PLAN.without(["v1"])) == ["v0"]
