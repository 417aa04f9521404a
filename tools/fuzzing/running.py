"""Running the applications of a round: opening them, changing the log, and what is said when something fails."""

from __future__ import annotations

import time
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from headwater.app import App
from headwater.engine.pipeline import PipelineOptions
from headwater.errors import HeadwaterError
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.spark.catalyst.determinism import CORRELATED
from tools.fuzzing.changes import append
from tools.fuzzing.findings import Figures, Finding
from tools.fuzzing.plans import Leg, RoundPlan, Step, create_topics
from tools.fuzzing.times import begin

MASTER = "local[2]"
NAME = "fuzz"
INTERPRETED = {"spark__sql__codegen__wholeStage": "false", "spark__sql__codegen__factoryMode": "NO_CODEGEN"}
"""Settings with which Spark runs views over a few rows most quickly: it makes no code of its own for them."""
_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's own settings: some of its functions give another value when they are compiled."""


@contextmanager
def timed(figures: Figures, name: str) -> Iterator[None]:
    """Adds the time that something takes to the figures."""
    began = time.monotonic()
    try:
        yield
    finally:
        figures.seconds[name] += time.monotonic() - began  # type: ignore[assignment]


def open_app(plan: RoundPlan, views: Mapping[str, str], leg: Leg, folder: Path) -> App:
    """The application of a leg."""
    options = cast("PipelineOptions", dict(leg.options))
    app = App(NAME, log=folder, master=MASTER, **options)
    create_topics(app.topic, plan.topics)
    app.clock()
    begin(app.log, [topic.name for topic in plan.topics])
    for name, sql in views.items():
        app.view(name, sql, on_error="dead_letter" if plan.policies.get(name) == "dead_letter" else "fail")
    return app


def has_rules(app: App, view: str, reads: Collection[str]) -> bool:
    """Whether headwater has a rule for what SQL leaves open in a view, or in one that it reads.

    That the ORDER BY of a correlated LIMIT counts is no such rule: it decides nothing where there is none.
    """
    planned = app.program.views
    return any(set(planned[name].rules) - {CORRELATED} for name in (view, *reads) if name in planned)


def let_compile(plan: RoundPlan, app: App) -> None:
    """Lets Spark compile what an application runs, in those rounds in which it is to."""
    if plan.compiled:
        for name, value in _COMPILED.items():
            app.program.session.conf.set(name, value)


def apply(step: Step, plan: RoundPlan, log: Log) -> int:
    """Makes the commits of a step, and compacts what is to be compacted; how many topics that are."""
    for commit in step.commits:
        append(log, commit)
    compacted = [topic.name for topic in plan.topics if topic.compacted and step.compact]
    for name in compacted:
        log.maintenance.seal(name)
        log.maintenance.compact(name)
    return len(compacted)


def failure(error: Exception, views: Mapping[str, str], batch: int) -> Finding:
    """An error as a finding."""
    view = getattr(error, "view", None)
    return Finding(view, views.get(view or "", ""), batch, error=told(error), cause=cause_of(error))


def told(error: Exception) -> str:
    """What an error says, and where it was raised, without Java's own frames."""
    frames = "".join(traceback.format_tb(error.__traceback__, limit=-6))
    said = "\n".join(line for line in str(error).splitlines() if not line.strip().startswith("at "))
    return f"{type(error).__name__}: {said[:2000]}\n{frames}"


def cause_of(error: Exception) -> str:
    """By what an error is known again: its class, and the first words of what it says."""
    words = str(error).split()[:4] if isinstance(error, HeadwaterError) else []
    return " ".join([type(error).__name__, *words])


def topics_of(plan: RoundPlan, log: Log) -> list[Topic]:
    """The topics of a log that views of a round read."""
    names = {topic.name for topic in plan.topics}
    return [topic for topic in log.topics() if topic.name in names]
