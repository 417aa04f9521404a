"""A round of expressions that fail: the pipeline fails, or sets a record aside, if and only if the batch query fails.

A record is refused only if raw Spark fails over the log up to its commit, and does not over the log before it. A record
is set aside only if raw Spark fails with it. What the views hold is what raw Spark gives without the records that were
set aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa

from headwater.app import App
from headwater.engine.pipeline import Progress
from headwater.engine.publication import Excluded
from headwater.errors import RecordFailed
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of, commit_position
from headwater.model.position import Position
from headwater.spark.session import start_session
from headwater.spark.verification import Batches
from headwater.testing.disk import seeded
from tools.fuzzing.candidates import Chosen, accepted
from tools.fuzzing.changes import Changes
from tools.fuzzing.failing import FailingQueries
from tools.fuzzing.findings import Figures, Finding
from tools.fuzzing.oracle import Oracle, RawFailed
from tools.fuzzing.plans import Leg, RoundPlan, Step, create_topics
from tools.fuzzing.running import MASTER, apply, failure, has_rules, open_app, timed, topics_of
from tools.fuzzing.topics import TopicPlan, failing_topics

_RUNS = 4
"""Runs of raw Spark, in different orders of rows, that tell whether a query fails."""


def random_failing_round(seed: int, folder: Path, figures: Figures, *, views: int = 6, steps: int = 8) -> RoundPlan:
    """The round of a seed. `folder` takes a log, for which the queries are planned."""
    dice = seeded(seed)
    topics = tuple(failing_topics(dice))
    queries = FailingQueries(dice, topics)
    one, other = [topic.name for topic in topics if topic.key][:2]
    made = {"v0": queries.of_pairs(one, other), **{f"v{number}": queries.query() for number in range(1, views)}}
    with EmbeddedLog(folder) as log, timed(figures, "choosing views"):
        create_topics(log.create, topics)
        wanted = Chosen({name: one.sql for name, one in made.items()}, {name: one.reads for name, one in made.items()})
        chosen = accepted(start_session(MASTER), log.topics(), wanted, figures)
    policy = dice.choice(("fail", "dead_letter", "dead_letter", "mixed"))
    policies = {name: dice.choice(("fail", "dead_letter")) if policy == "mixed" else policy for name in made}
    legs = _legs(dice, topics, steps)
    return RoundPlan(seed, topics, chosen.views, chosen.reads, legs, policies)


def _legs(dice: Random, topics: Sequence[TopicPlan], steps: int) -> tuple[Leg, ...]:
    changes = Changes(dice, topics)
    made = [Step((changes.first_rows(),)), Step((changes.shift(),))]
    for _ in range(steps - 2):
        count = dice.choice((1, 1, 2))
        commits = tuple(changes.shift() if dice.random() < 0.4 else changes.commit() for _ in range(count))
        made += [Step(commits)]
    middle = dice.randint(1, steps)
    parts = [made[:middle], made[middle:]]
    return tuple(Leg(tuple(part), {"one_task_rows_max": 0} if dice.random() < 0.2 else {}) for part in parts if part)


class FailingRound:
    """Runs the plan of such a round in an empty folder. It ends when the pipeline has refused a record."""

    def __init__(self, plan: RoundPlan, folder: Path, figures: Figures, *, stop_at_first: bool = False) -> None:
        self._plan, self._folder, self._figures, self._stop_at_first = plan, folder, figures, stop_at_first
        self._batch = 0
        self._out: set[str] = set()
        self.findings: list[Finding] = []

    def run(self) -> list[Finding]:
        """What the round found, which is also added to the figures."""
        self._figures.rounds += 1
        self._figures.views += len(self._plan.views)
        for number, leg in enumerate(self._plan.legs):
            self._figures.reopened += number > 0
            with open_app(self._plan, self._plan.views, leg, self._folder) as app:
                if not self._run(leg, app):
                    break
        self._figures.findings += self.findings
        return self.findings

    def _run(self, leg: Leg, app: App) -> bool:
        """Whether the round can be continued after this leg."""
        try:
            oracle = Oracle(app.program.session, topics_of(self._plan, app.log), self._plan.views, self._plan.reads)
            batches = Batches(app.program, app.log)
            for step in leg.steps:
                apply(step, self._plan, app.log)
                try:
                    self._catch_up(app, oracle, batches)
                except RecordFailed as error:
                    self._check_refused(app, oracle, error)
                    return False
                if self.findings and self._stop_at_first:
                    return False
        except Exception as error:  # noqa: BLE001 (whatever a batch fails with is a finding)
            self.findings.append(failure(error, self._plan.views, self._batch + 1))
            return False
        return True

    def _catch_up(self, app: App, oracle: Oracle, batches: Batches) -> None:
        running = app.batches()
        while (progress := self._next(running)) is not None:
            self._batch = progress.batch
            with timed(self._figures, "comparing"):
                self._check(app, oracle, batches, progress)

    def _next(self, running: Iterator[Progress]) -> Progress | None:
        with timed(self._figures, "batches"):
            return next(running, None)

    def _check(self, app: App, oracle: Oracle, batches: Batches, progress: Progress) -> None:
        self._figures.batches += 1
        excluded = app.dead_letters()
        for row in progress.excluded:
            self._check_set_aside(app, oracle, row, excluded)
        oracle.move(app.log, progress.position, excluded)
        for name in self._plan.views:
            if name not in self._out:
                self._compare(name, app, oracle, batches, progress.position, excluded)

    def _compare(
        self, name: str, app: App, oracle: Oracle, batches: Batches, position: Position, excluded: Sequence[Excluded]
    ) -> None:
        sql = self._plan.views[name]

        def settled() -> pa.Table:
            return batches.content(name, position, excluded)

        try:
            content = app.snapshot([name]).tables[name]
            verdict = oracle.judge(name, content, settled, has_rules=has_rules(app, name, self._plan.reads[name]))
        except RawFailed as error:
            if all(oracle.failures(name, _RUNS)):
                self._found(name, f"The batch query fails, and the pipeline does not: {str(error)[:300]}", "missed")
            return
        except Exception as error:  # noqa: BLE001 (a view that cannot be read is a finding)
            self._out.add(name)
            self.findings.append(failure(error, self._plan.views, self._batch))
            return
        self._figures.comparisons += 1
        self._figures.rows += content.num_rows
        self._figures.without_rows += content.num_rows == 0
        self._figures.open += verdict.open
        if verdict.differences:
            self._out.add(name)
            self.findings.append(Finding(name, sql, self._batch, verdict.differences, note=verdict.note))

    def _check_set_aside(self, app: App, oracle: Oracle, row: Excluded, excluded: Sequence[Excluded]) -> None:
        """Raw Spark must fail with the record that was set aside."""
        self._figures.set_aside += 1
        others = [other for other in excluded if other != row]
        oracle.move(app.log, _commit_of(app, row.topic, row.partition, row.offset), others)
        if not any(any(oracle.failures(name, _RUNS)) for name in self._plan.views):
            where = f"offset {row.offset} of {row.topic}, partition {row.partition}"
            self._found(row.view or None, f"A good record was set aside: {where}. {row.reason}", "good set aside")

    def _check_refused(self, app: App, oracle: Oracle, error: RecordFailed) -> None:
        """Raw Spark must fail over the log up to the commit of the record, and not before it."""
        self._figures.failed += 1
        excluded = app.dead_letters()
        commit = _commit_of(app, error.topic, error.partition, error.offset)
        names = [error.view] if error.view in self._plan.views else list(self._plan.views)
        oracle.move(app.log, commit, [*excluded, *(Excluded("", *place, "") for place in error.without)])
        if not any(any(oracle.failures(str(name), _RUNS)) for name in names):
            self._found(error.view, f"A good record is refused: {error}", "good refused")
        before = commit_position(commit_of(commit) - 1)
        if app.pipeline.position != before:
            self._found(error.view, f"It stopped at {app.pipeline.position}, not at {before}: {error}", "early")
        oracle.move(app.log, before, excluded)
        for name in self._plan.views:
            if all(oracle.failures(name, _RUNS)):
                self._found(name, f"The batch query fails before the record, too: {error}", "missed")

    def _found(self, view: str | None, text: str, cause: str) -> None:
        if view is not None:
            self._out.add(view)
        sql = self._plan.views.get(view or "", "")
        self.findings.append(Finding(view, sql, self._batch, error=text, cause=cause))


def _commit_of(app: App, topic: str, partition: int, offset: int) -> Position:
    """The position of the commit that a record belongs to."""
    records = app.log.scan(topic).select(["_partition", "_offset", "_commit"]).to_pylist()
    found = [one for one in records if (one["_partition"], one["_offset"]) == (partition, offset)]
    return commit_position(found[0]["_commit"])
