"""A failing round written down as a program that repeats it."""

from __future__ import annotations

import pprint
from collections.abc import Mapping, Sequence
from typing import Any

from tools.fuzzing.changes import Change
from tools.fuzzing.findings import Finding
from tools.fuzzing.plans import Leg, RoundPlan, Step
from tools.fuzzing.topics import TopicPlan

_WIDTH = 110
_SCRIPT = '''"""{title}"""

import tempfile
from math import inf, nan  # noqa: F401
from pathlib import Path

from tools.fuzzing.findings import Figures
from tools.fuzzing.reproducing import plan_from
from tools.fuzzing.seeds import run_plan

# Topics: name, columns, key, partitions, whether it is compacted.
TOPICS = {topics}
VIEWS = {views}
# What to do when a record makes a view fail; empty unless this is what the round is about.
POLICIES = {policies}
# Legs of an application: its options, and steps. A step: whether topics are compacted, and commits, after which views
# catch up. A commit has (topic, rows, whether they are deleted).
LEGS = {legs}

with tempfile.TemporaryDirectory() as folder:
    plan = plan_from({seed}, TOPICS, VIEWS, POLICIES, LEGS)
    for finding in run_plan(plan, Path(folder) / "log", Figures(), stop_at_first=True):
        print(finding)
'''


def reproduction(plan: RoundPlan, finding: Finding) -> str:
    """A program that repeats a failing round."""
    what = f"error ({finding.cause})" if finding.error else f"difference ({finding.note})"
    return _SCRIPT.format(
        title=f"Seed {plan.seed}: {what} of view {finding.view} after batch {finding.batch}.",
        topics=_shown([[one.name, one.ddl, list(one.key), one.partitions, one.compacted] for one in plan.topics]),
        views=_shown(dict(plan.views)),
        policies=_shown(dict(plan.policies)),
        legs=_shown([[dict(leg.options), [_step(step) for step in leg.steps]] for leg in plan.legs]),
        seed=plan.seed,
    )


def plan_from(
    seed: int,
    topics: Sequence[Sequence[Any]],
    views: Mapping[str, str],
    policies: Mapping[str, str],
    legs: Sequence[Sequence[Any]],
) -> RoundPlan:
    """The plan that such a program stands for. Every view is taken to read all topics, and all views before it."""
    made = tuple(
        TopicPlan(name, _columns(ddl), tuple(key), partitions, compacted=compacted)
        for name, ddl, key, partitions, compacted in topics
    )
    names = [*(topic.name for topic in made), *views]
    reads = {view: frozenset(names[: names.index(view)]) for view in views}
    return RoundPlan(seed, made, views, reads, tuple(_leg(*leg) for leg in legs), policies)


def _columns(ddl: str) -> tuple[tuple[str, str], ...]:
    """The columns of a schema: commas inside a type are not followed by a space."""
    parts = [part.split(" ", 1) for part in ddl.split(", ")]
    return tuple((name, kind) for name, kind in parts)


def _leg(options: Mapping[str, int], steps: Sequence[Sequence[Any]]) -> Leg:
    return Leg(
        tuple(
            Step(
                tuple(
                    tuple(Change(topic, tuple(rows), delete) for topic, rows, delete in commit) for commit in commits
                ),
                compact,
            )
            for compact, commits in steps
        ),
        options,
    )


def _step(step: Step) -> list[Any]:
    commits = [
        [[change.topic, [dict(row) for row in change.rows], change.delete] for change in commit]
        for commit in step.commits
    ]
    return [step.compact, commits]


def _shown(value: Any) -> str:
    return pprint.pformat(value, width=_WIDTH, sort_dicts=False)
