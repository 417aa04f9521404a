"""A round of fuzzing: random views over random topics, brought up to date batch by batch and compared with Spark.

After every batch each view is compared with what its SQL gives as an ordinary batch query at the same position. A seed
decides everything: topics, queries, changes, where the log is cut into batches, and how a batch is run.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from headwater.app import App
from headwater.engine.comparison import Difference, differences
from headwater.engine.pipeline import Progress
from headwater.errors import InternalError, InvalidQuery, UnsupportedQuery, ViewFailed
from headwater.log.embedded import EmbeddedLog, open_log
from headwater.spark.program import Program
from headwater.spark.session import start_session
from headwater.spark.verification import Batches
from headwater.testing.changes import IDLE, Changes, Commit, append
from headwater.testing.disk import seeded
from headwater.testing.queries import Queries, Relation, topic_relation
from headwater.testing.topics import TopicPlan, random_topics

MASTER = "local[2]"
_TRIES = 80


@dataclass(frozen=True, slots=True)
class Leg:
    """What one application does with the log before it is closed: steps of commits, each followed by catching up."""

    steps: tuple[tuple[Commit, ...], ...]
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """All that happens in a round. Each leg is run by an application of its own, on the same directory."""

    seed: int
    topics: tuple[TopicPlan, ...]
    views: Mapping[str, str]
    reads: Mapping[str, frozenset[str]]
    legs: tuple[Leg, ...]

    def needed(self, views: Sequence[str]) -> dict[str, str]:
        """The views of these names and all that they read."""
        wanted = frozenset(views).union(*(self.reads[name] for name in views))
        return {name: sql for name, sql in self.views.items() if name in wanted}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: a view that differs from Spark after a batch, or an error (of the view, if that is known)."""

    view: str | None
    sql: str
    batch: int
    differences: Sequence[Difference] = ()
    error: str = ""

    def __str__(self) -> str:
        shown = "\n".join(f"  {one.surplus:+d} {one.row}" for one in self.differences[:10]) or self.error
        return f"view {self.view} after batch {self.batch}:\n  {self.sql}\n{shown}"


@dataclass(slots=True)
class Figures:
    """What was done in one round or several."""

    rounds: int = 0
    views: int = 0
    batches: int = 0
    comparisons: int = 0
    rows: int = 0
    without_rows: int = 0
    """Comparisons of a view that has no rows: they show little."""
    reopened: int = 0
    invalid: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """For each construct that was refused, a query that has it."""
    undecided: dict[str, str] = field(default_factory=dict)
    """Queries that Spark itself fails on, with its message: there is nothing to compare with."""
    findings: list[Finding] = field(default_factory=list)


def random_round(seed: int, folder: Path, figures: Figures, *, views: int = 8, steps: int = 5) -> RoundPlan:
    """The round of a seed. `folder` takes a log, which the queries are tried on."""
    dice = seeded(seed)
    topics = tuple(random_topics(dice))
    legs = _legs(dice, topics, steps)
    first = next((step for leg in legs for step in leg.steps if step), ())
    chosen = _views(dice, topics, views, folder, first, figures)
    sql = {name: relation.sql for name, relation in chosen.items()}
    return RoundPlan(seed, topics, sql, {name: relation.reads for name, relation in chosen.items()}, legs)


def _legs(dice: Random, topics: Sequence[TopicPlan], steps: int) -> tuple[Leg, ...]:
    changes = Changes(dice, topics)
    filling = (changes.filling(),) if dice.random() < 0.8 else ()
    made = [tuple(changes.commit() for _ in range(dice.randint(0, 4))) for _ in range(steps)]
    made[0] = filling + made[0]
    middle = dice.randint(1, steps - 1) if dice.random() < 0.5 and steps > 1 else steps
    parts = [made[:middle], made[middle:]]
    return tuple(Leg(tuple(part), _options(dice)) for part in parts if part)


def _options(dice: Random) -> dict[str, int]:
    options = {}
    if dice.random() < 0.5:
        options["one_task_rows_max"] = 0
    if dice.random() < 0.3:
        options["batch_rows_max"] = dice.choice((5, 12))
    return options


def _views(
    dice: Random, topics: Sequence[TopicPlan], count: int, folder: Path, first: Sequence[Commit], figures: Figures
) -> dict[str, Relation]:
    """Queries that Spark and headwater accept; what is refused is counted, and replaced by another one.

    Most of those that have no rows after the first commits are replaced, too.
    """
    queries = Queries(dice, [topic_relation(topic) for topic in topics])
    accepted: dict[str, Relation] = {}
    session = start_session(MASTER)
    with open_log(folder) as log:
        create_topics(log.create, topics)
        for commit in first:
            append(log, commit)
        known = log.topics()
        for number in range(_TRIES):
            if len(accepted) == count:
                break
            made = queries.query(number % 4)
            name = f"v{len(accepted)}"
            try:
                program = Program(session, known, {**_read(accepted, made), name: made.sql})
                empty = _is_empty(program, log, name)
            except InvalidQuery as error:
                figures.invalid += 1
                figures.examples.setdefault(f"invalid: {error.reason[:60]}", made.sql)
            except UnsupportedQuery as error:
                figures.refused[error.construct] += 1
                figures.examples.setdefault(error.construct, made.sql)
            except Exception:  # noqa: BLE001 (whatever planning fails with is a finding)
                figures.findings.append(Finding(name, made.sql, 0, error=traceback.format_exc(limit=-4)))
            else:
                if empty and dice.random() < 0.9:
                    continue
                accepted[name] = made
                queries.relations.append(Relation(name, made.columns, made.rows, made.reads))
    return accepted


def _is_empty(program: Program, log: EmbeddedLog, name: str) -> bool:
    try:
        return all(content.num_rows == 0 for _, content in Batches(program, log).contents([name], log.position()))
    except ViewFailed:
        return False


def _read(accepted: Mapping[str, Relation], made: Relation) -> dict[str, str]:
    """The views that a query reads; its reads have those that they read, too."""
    return {name: relation.sql for name, relation in accepted.items() if name in made.reads}


def create_topics(create: Any, topics: Sequence[TopicPlan]) -> None:
    """Creates the topics of a round."""
    for topic in topics:
        create(topic.name, topic.ddl, key=topic.key or None, partitions=topic.partitions)
    create(IDLE, "id bigint")


class Round:
    """Runs the plan of a round in an empty folder."""

    def __init__(self, plan: RoundPlan, folder: Path, figures: Figures, *, stop_at_first: bool = False) -> None:
        self._plan, self._folder, self._figures, self._stop_at_first = plan, folder, figures, stop_at_first
        self._out: set[str] = set()
        self.findings: list[Finding] = []

    def run(self) -> list[Finding]:
        """What the round found, which is also added to the figures."""
        self._figures.rounds += 1
        self._figures.views += len(self._plan.views)
        for number, leg in enumerate(self._plan.legs):
            self._figures.reopened += number > 0
            with App("fuzz", log=self._folder, master=MASTER, **leg.options) as app:
                if number == 0:
                    create_topics(app.topic, self._plan.topics)
                for name, sql in self._plan.views.items():
                    app.view(name, sql)
                if not self._run(leg, app):
                    break
        self._figures.findings += self.findings
        return self.findings

    def _run(self, leg: Leg, app: App) -> bool:
        """Whether the round can go on after this leg."""
        batch = 0
        try:
            batches = Batches(app.program, app.log)
            for step in leg.steps:
                for commit in step:
                    append(app.log, commit)
                for progress in app.batches():
                    batch = progress.batch
                    self._compare(app, batches, progress)
                    if self.findings and self._stop_at_first:
                        return False
        except Exception as error:  # noqa: BLE001 (whatever a batch fails with is a finding)
            view = getattr(error, "view", None)
            text = f"{type(error).__name__}: {str(error)[:3000]}\n{traceback.format_exc(limit=-3)[-1500:]}"
            self.findings.append(Finding(view, self._plan.views.get(view or "", ""), batch + 1, error=text))
            return False
        return True

    def _compare(self, app: App, batches: Batches, progress: Progress) -> None:
        """Compares all views but those that are known to be wrong, and those that read them."""
        if app.pipeline.generation.status == "building":
            # Opened again, it was planned otherwise; readers see the generation before until this one has caught up.
            return
        snapshot = app.snapshot()
        if snapshot.position != progress.position:
            raise InternalError(f"Views are at {snapshot.position}, and the batch ended at {progress.position}.")
        self._figures.batches += 1
        left = [name for name in app.program.views if not self._out & set(self._plan.needed([name]))]
        while left:
            try:
                for name, expected in batches.contents(left, progress.position):
                    left = left[1:]
                    self._figures.comparisons += 1
                    self._figures.rows += expected.num_rows
                    self._figures.without_rows += expected.num_rows == 0
                    found = differences(snapshot.tables[name], expected)
                    if found:
                        self.findings.append(Finding(name, self._plan.views[name], progress.batch, found))
                        self._out.add(name)
            except ViewFailed as error:
                self._figures.undecided[self._plan.views[left[0]]] = str(error)[:500]
                self._out.add(left[0])
                left = left[1:]
