"""What the number of a round decides: which kind of round it is, and how that is planned and run."""

from __future__ import annotations

from pathlib import Path

from tools.fuzzing.failing_rounds import FailingRound, random_failing_round
from tools.fuzzing.findings import Figures, Finding
from tools.fuzzing.names import twins
from tools.fuzzing.plans import RoundPlan
from tools.fuzzing.rounds import Round, random_round

VIEWS, STEPS = 24, 6
_FAILING_EVERY, _NAMES_EVERY = 3, 3


def plan_of(
    seed: int, folder: Path, figures: Figures, *, views: int = VIEWS, steps: int = STEPS, stop_at_first: bool = False
) -> RoundPlan:
    """The plan of a seed; every third has expressions that fail. `folder` takes a log that it is tried on."""
    if seed % _FAILING_EVERY == _FAILING_EVERY - 1:
        return random_failing_round(seed, folder, figures, views=max(2, views // 4), steps=steps + 2)
    plan = random_round(seed, folder, figures, views=views, steps=steps, stop_at_first=stop_at_first)
    if seed % _NAMES_EVERY == 1:
        figures.findings += twins(plan.topics, folder.with_name("names"))
    return plan


def run_plan(plan: RoundPlan, folder: Path, figures: Figures, *, stop_at_first: bool = False) -> list[Finding]:
    """Runs a round of either kind in a folder; what it found."""
    if not plan.views:
        return []
    kind = FailingRound if plan.policies else Round
    return kind(plan, folder, figures, stop_at_first=stop_at_first).run()
