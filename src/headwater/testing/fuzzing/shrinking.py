"""Making a failing round small: the failing view alone, then fewer steps, commits and rows, while it fails."""

from __future__ import annotations

import pprint
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from headwater.testing.changes import Commit
from headwater.testing.rounds import Figures, Finding, Leg, Round, RoundPlan

SECONDS_MAX = 240.0
_Item = TypeVar("_Item")


class Shrinking:
    """Tries smaller and smaller rounds, each in a folder of its own, for so many seconds."""

    def __init__(self, folder: Path, seconds_max: float = SECONDS_MAX) -> None:
        self._folder, self._until = folder, time.monotonic() + seconds_max
        self._trials = 0

    def shrink(self, plan: RoundPlan, finding: Finding) -> tuple[RoundPlan, Finding]:
        """The smallest round found that fails in the same way, and how that fails."""
        best = plan, finding
        for smaller in self._candidates(plan, finding):
            found = self._fails(smaller, finding)
            if found is not None:
                best = smaller, found
                break
        for simpler in (self._one_leg, self._fewer_steps, self._fewer_commits, self._fewer_rows):
            best = simpler(*best)
        return best

    def _candidates(self, plan: RoundPlan, finding: Finding) -> Iterator[RoundPlan]:
        for name in [finding.view] if finding.view in plan.views else list(plan.views):
            yield replace(plan, views=plan.needed([str(name)]))

    def _fails(self, plan: RoundPlan, finding: Finding) -> Finding | None:
        """How a round fails, if it does so in the way of the finding."""
        if time.monotonic() > self._until:
            return None
        self._trials += 1
        folder = self._folder / f"trial{self._trials}"
        found = Round(plan, folder, Figures(), stop_at_first=True).run()
        shutil.rmtree(folder, ignore_errors=True)
        same = [one for one in found if bool(one.error) == bool(finding.error)]
        return next((one for one in same if one.view == finding.view or finding.view is None), None)

    def _one_leg(self, plan: RoundPlan, finding: Finding) -> tuple[RoundPlan, Finding]:
        """One application with no options, or with those of one leg."""
        steps = tuple(step for leg in plan.legs for step in leg.steps)
        tried: list[object] = []
        for options in ({}, *(dict(leg.options) for leg in plan.legs)):
            smaller = replace(plan, legs=(Leg(steps, options),))
            if options in tried or smaller.legs == plan.legs:
                continue
            tried.append(options)
            found = self._fails(smaller, finding)
            if found is not None:
                return smaller, found
        return plan, finding

    def _fewer_steps(self, plan: RoundPlan, finding: Finding) -> tuple[RoundPlan, Finding]:
        return self._fewer(plan, finding, lambda leg: leg.steps, lambda leg, steps: replace(leg, steps=steps))

    def _fewer_commits(self, plan: RoundPlan, finding: Finding) -> tuple[RoundPlan, Finding]:
        return self._fewer(plan, finding, _numbered_commits, _with_commits)

    def _fewer_rows(self, plan: RoundPlan, finding: Finding) -> tuple[RoundPlan, Finding]:
        return self._fewer(plan, finding, _numbered_rows, _with_rows)

    def _fewer(
        self,
        plan: RoundPlan,
        finding: Finding,
        take: Callable[[Leg], tuple[_Item, ...]],
        put: Callable[[Leg, tuple[_Item, ...]], Leg],
    ) -> tuple[RoundPlan, Finding]:
        """Leaves out parts of each leg: half of them, a quarter, and so on down to single ones."""
        for number, leg in enumerate(plan.legs):
            items = take(leg)
            size = max(1, len(items) // 2)
            while items and time.monotonic() < self._until:
                for first in range(len(items) - size, -1, -size):
                    fewer = items[:first] + items[first + size :]
                    legs = (*plan.legs[:number], put(leg, fewer), *plan.legs[number + 1 :])
                    found = self._fails(replace(plan, legs=legs), finding)
                    if found is not None:
                        plan, finding, items = replace(plan, legs=legs), found, fewer
                if size == 1:
                    break
                size = max(1, size // 2)
        return plan, finding


def _numbered_commits(leg: Leg) -> tuple[tuple[int, Commit], ...]:
    return tuple((number, commit) for number, step in enumerate(leg.steps) for commit in step)


def _with_commits(leg: Leg, commits: Sequence[tuple[int, Commit]]) -> Leg:
    steps = [tuple(commit for number, commit in commits if number == step) for step in range(len(leg.steps))]
    return replace(leg, steps=tuple(steps))


def _numbered_rows(leg: Leg) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(
        (one, two, three, four)
        for one, step in enumerate(leg.steps)
        for two, commit in enumerate(step)
        for three, change in enumerate(commit)
        for four in range(len(change.rows))
    )


def _with_rows(leg: Leg, rows: Sequence[tuple[int, int, int, int]]) -> Leg:
    kept = set(rows)
    steps = []
    for one, step in enumerate(leg.steps):
        commits = []
        for two, commit in enumerate(step):
            changes = []
            for three, change in enumerate(commit):
                left = tuple(row for four, row in enumerate(change.rows) if (one, two, three, four) in kept)
                changes += [replace(change, rows=left)] if left else []
            commits += [tuple(changes)] if changes else []
        steps.append(tuple(commits))
    return replace(leg, steps=tuple(steps))


_SCRIPT = '''"""{title}"""

import tempfile
from math import inf, nan  # noqa: F401

from headwater.app import App

TOPICS = {topics}
VIEWS = {views}
# Legs of an application: its options, and steps of commits; a commit has (topic, rows, whether they are deleted).
LEGS = {legs}

with tempfile.TemporaryDirectory() as folder:
    for options, steps in LEGS:
        with App("fuzz", log=folder + "/log", **options) as app:
            for name, schema, key, partitions in TOPICS:
                app.topic(name, schema, key=key, partitions=partitions)
            for name, sql in VIEWS.items():
                app.view(name, sql)
            for step in steps:
                for commit in step:
                    with app.log.commit() as made:
                        for topic, rows, delete in commit:
                            (made.delete if delete else made.append)(topic, rows)
                for progress in app.batches():
                    for name in VIEWS:
                        for one in app.verify(name).differences:
                            print(f"batch {{progress.batch}}, view {{name}}: {{one.surplus:+d}} {{one.row}}")
'''


def reproduction(plan: RoundPlan, finding: Finding) -> str:
    """A program that repeats a failing round and needs nothing else."""
    topics = [(topic.name, topic.ddl, list(topic.key) or None, topic.partitions) for topic in plan.topics]
    topics.append(("idle", "id bigint", None, 1))
    legs = [
        (
            dict(leg.options),
            [
                [
                    [(change.topic, [dict(row) for row in change.rows], change.delete) for change in commit]
                    for commit in step
                ]
                for step in leg.steps
            ],
        )
        for leg in plan.legs
    ]
    what = "an error" if finding.error else "a difference"
    return _SCRIPT.format(
        title=f"Seed {plan.seed}: {what} of view {finding.view} after batch {finding.batch}.",
        topics=pprint.pformat(topics, width=110),
        views=pprint.pformat(dict(plan.views), width=110, sort_dicts=False),
        legs=pprint.pformat(legs, width=110, sort_dicts=False),
    )
