"""Making a failing round small while it fails: the failing view alone, fewer steps, commits and rows, simpler SQL."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tools.fuzzing.changes import Change, Commit
from tools.fuzzing.findings import Figures, Finding
from tools.fuzzing.plans import Leg, RoundPlan, Step
from tools.fuzzing.seeds import run_plan
from tools.fuzzing.simplifying import simpler
from tools.fuzzing.times import sources_of
from tools.fuzzing.topics import TopicPlan
from tools.fuzzing.trying import analyzer

SECONDS_MAX = 240.0
_Item = TypeVar("_Item")


class Shrinking:
    """Tries smaller and smaller rounds, each in a folder of its own, for this many seconds."""

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
        for step in (self._one_leg, self._fewer_steps, self._fewer_commits, self._simpler_sql, self._fewer_rows):
            best = step(*best)
        return self._fewer_columns(*best)

    def _candidates(self, plan: RoundPlan, finding: Finding) -> Iterator[RoundPlan]:
        for name in [finding.view] if finding.view in plan.views else list(plan.views):
            yield replace(plan, views=plan.needed([str(name)]))

    def _fails(self, plan: RoundPlan, finding: Finding) -> Finding | None:
        """How a round fails, if it does so in the way of the finding."""
        if time.monotonic() > self._until:
            return None
        self._trials += 1
        folder = self._folder / f"trial{self._trials}"
        found = run_plan(plan, folder, Figures(), stop_at_first=True)
        shutil.rmtree(folder, ignore_errors=True)
        same = [one for one in found if one.like(finding)]
        return next((one for one in same if one.view == finding.view or None in (one.view, finding.view)), None)

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

    def _simpler_sql(self, plan: RoundPlan, finding: Finding) -> tuple[RoundPlan, Finding]:
        """Less SQL in the view that fails."""
        view = finding.view if finding.view in plan.views else None
        if view is None and len(plan.views) == 1:
            view = next(iter(plan.views))
        if view is None:
            return plan, finding
        analyzes = analyzer(plan)
        again = True
        while again and time.monotonic() < self._until:
            again = False
            for sql in simpler(plan.views[view]):
                if not analyzes(sql) or any(part in plan.views[view] and part not in sql for part in plan.meant):
                    continue
                smaller = replace(plan, views={**plan.views, view: sql})
                found = self._fails(smaller, finding)
                if found is not None:
                    plan, finding, again = smaller, found, True
                    break
        return plan, finding

    def _fewer_columns(self, plan: RoundPlan, finding: Finding) -> tuple[RoundPlan, Finding]:
        """Without topics and columns that no view names."""
        smaller = _narrowed(plan)
        found = self._fails(smaller, finding)
        return (plan, finding) if found is None else (smaller, found)

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
    return tuple((number, commit) for number, step in enumerate(leg.steps) for commit in step.commits)


def _with_commits(leg: Leg, commits: Sequence[tuple[int, Commit]]) -> Leg:
    steps = [
        replace(step, commits=tuple(commit for place, commit in commits if place == number))
        for number, step in enumerate(leg.steps)
    ]
    return replace(leg, steps=tuple(steps))


def _numbered_rows(leg: Leg) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(
        (one, two, three, four)
        for one, step in enumerate(leg.steps)
        for two, commit in enumerate(step.commits)
        for three, change in enumerate(commit)
        for four in range(len(change.rows))
    )


def _with_rows(leg: Leg, rows: Sequence[tuple[int, int, int, int]]) -> Leg:
    kept = set(rows)
    steps = []
    for one, step in enumerate(leg.steps):
        commits = []
        for two, commit in enumerate(step.commits):
            changes = []
            for three, change in enumerate(commit):
                left = tuple(row for four, row in enumerate(change.rows) if (one, two, three, four) in kept)
                changes += [replace(change, rows=left)] if left else []
            commits += [tuple(changes)] if changes else []
        steps.append(replace(step, commits=tuple(commits)))
    return replace(leg, steps=tuple(steps))


def _narrowed(plan: RoundPlan) -> RoundPlan:
    words = {word.lower() for sql in plan.views.values() for word in re.findall(r"\w+", sql)}
    stars = any("*" in sql for sql in plan.views.values())
    topics = {
        topic.name: replace(
            topic,
            columns=tuple(
                (name, kind) for name, kind in topic.columns if stars or name in topic.key or name.lower() in words
            ),
        )
        for topic in plan.topics
        if topic.name.lower() in words
    }
    legs = tuple(replace(leg, steps=tuple(_narrowed_step(step, topics) for step in leg.steps)) for leg in plan.legs)
    return replace(plan, topics=tuple(topics.values()), legs=legs)


def _narrowed_step(step: Step, topics: dict[str, TopicPlan]) -> Step:
    commits = []
    sources = sources_of(list(topics))
    for commit in step.commits:
        changes = [
            _narrowed_change(change, topics[change.topic]) if change.topic in topics else change
            for change in commit
            if change.topic in topics or change.topic in sources
        ]
        commits += [tuple(changes)] if changes else []
    return replace(step, commits=tuple(commits))


def _narrowed_change(change: Change, topic: TopicPlan) -> Change:
    names = {name for name, _ in topic.columns}
    return replace(change, rows=tuple({name: row[name] for name in row if name in names} for row in change.rows))
