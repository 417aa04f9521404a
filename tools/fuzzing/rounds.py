"""A round of fuzzing: random views over random topics, brought up to date batch by batch and compared with raw Spark.

After every batch each view is compared with what its SQL gives in a Spark that knows nothing of headwater, over the
rows of the topics at the same position. A seed decides everything: topics, queries, changes, where the log is cut into
batches, when it is compacted, when the application is opened again, and how a batch is run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa

from headwater.app import App
from headwater.engine.pipeline import Progress
from headwater.model.position import START
from headwater.spark.session import start_session
from headwater.spark.time_calls import time_calls
from headwater.spark.verification import Batches
from headwater.testing.disk import seeded
from tools.fuzzing.candidates import choose
from tools.fuzzing.changes import Changes
from tools.fuzzing.findings import Figures, Finding
from tools.fuzzing.oracle import Oracle, RawFailed
from tools.fuzzing.plans import COMPILED_EVERY, Leg, RoundPlan, Step
from tools.fuzzing.running import (
    MASTER,
    apply,
    failure,
    has_rules,
    let_compile,
    open_app,
    timed,
    topics_of,
)
from tools.fuzzing.topics import TopicPlan, random_topics

_ATTEMPTS = 5
"""How often a round is begun again without views that stop the pipeline."""
_SUSPECTS_SECONDS_MAX = 240.0


def random_round(
    seed: int, folder: Path, figures: Figures, *, views: int = 24, steps: int = 6, stop_at_first: bool = False
) -> RoundPlan:
    """The round of a seed. `folder` takes a log, which the queries are tried on."""
    dice = seeded(seed)
    topics = tuple(random_topics(dice))
    legs = _legs(dice, topics, steps)
    first = next((step.commits for leg in legs for step in leg.steps if step.commits), ())
    with timed(figures, "choosing views"):
        # Counted so, rounds that Spark compiles and those that it does not begin with either half of the special forms.
        number = seed // COMPILED_EVERY
        chosen = choose(
            start_session(MASTER), dice, topics, first, views, folder, figures, round_number=number,
            stop_at_first=stop_at_first,
        )  # fmt: skip
    return RoundPlan(seed, topics, chosen.views, chosen.reads, legs, meant=chosen.meant)


def _legs(dice: Random, topics: Sequence[TopicPlan], steps: int) -> tuple[Leg, ...]:
    changes = Changes(dice, topics, timed=True)
    filling = (changes.filling(), *changes.first_moments()) if dice.random() < 0.85 else ()
    made = []
    for number in range(steps):
        commits = tuple(changes.commit() for _ in range(dice.randint(0 if number else 1, 4)))
        made.append(Step(filling + commits if number == 0 else commits, compact=dice.random() < 0.2))
    cuts = sorted(dice.sample(range(1, steps), min(steps - 1, dice.choice((0, 1, 1, 2)))))
    parts = [made[first:last] for first, last in zip([0, *cuts], [*cuts, steps], strict=True)]
    return tuple(Leg(tuple(part), _options(dice)) for part in parts)


def _options(dice: Random) -> dict[str, int]:
    options = {}
    if dice.random() < 0.4:
        options["one_task_rows_max"] = 0
    if dice.random() < 0.2:
        options["batch_rows_max"] = dice.choice((5, 12))
    return options


class Round:
    """Runs the plan of a round in an empty folder.

    A view that stops the pipeline is found, and the round is begun again without it, in a folder beside the first.
    """

    def __init__(self, plan: RoundPlan, folder: Path, figures: Figures, *, stop_at_first: bool = False) -> None:
        self._plan, self._folder, self._figures, self._stop_at_first = plan, folder, figures, stop_at_first
        self._views = dict(plan.views)
        self._out: set[str] = set()
        self._generation: int | None = None
        self.findings: list[Finding] = []

    def run(self) -> list[Finding]:
        """What the round found, which is also added to the figures."""
        self._figures.rounds += 1
        self._figures.views += len(self._plan.views)
        for attempt in range(_ATTEMPTS):
            self._generation = None
            stopped = self._attempt(self._folder / f"attempt{attempt}")
            if stopped is None or self._stop_at_first:
                break
            gone = self._suspects(*stopped)
            if not gone:
                break
            self._views = {
                name: sql
                for name, sql in self._views.items()
                if name not in gone and not self._plan.reads[name] & frozenset(gone)
            }
            if not self._views:
                break
        self._figures.findings += self.findings
        return self.findings

    def _attempt(self, folder: Path) -> tuple[int, Exception] | None:
        """Runs all legs; after how many steps, and with which error, the pipeline has stopped, if it has."""
        done = 0
        for number, leg in enumerate(self._plan.legs):
            self._figures.reopened += number > 0
            app = open_app(self._plan, self._views, leg, folder)
            try:
                with app:
                    self._check_generation(app)
                    done = self._run(leg, app, done)
                    if number == len(self._plan.legs) - 1:
                        self._verify(app)
            except _Stop:
                return None
            except Exception as error:  # noqa: BLE001 (whatever a batch fails with is a finding)
                if self._stop_at_first:
                    self.findings.append(failure(error, self._views, done))
                return done, error
        return None

    def _check_generation(self, app: App) -> None:
        """State that was built is resumed: the views are the same, and so must be their generation."""
        with timed(self._figures, "opening"):
            found = app.pipeline.generation
        if self._generation is not None and found.id != self._generation:
            rebuilt = Finding(None, "", found.batch, error="It is built again after a restart.", cause="rebuilt")
            if not any(one.cause == "rebuilt" for one in self.findings):
                self._found(rebuilt)
        self._generation = found.id

    def _found(self, finding: Finding) -> None:
        self.findings.append(finding)
        if self._stop_at_first:
            raise _Stop

    def _run(self, leg: Leg, app: App, done: int) -> int:
        """Runs a leg; how many steps have been done since the first leg."""
        topics = topics_of(self._plan, app.log)
        oracle = Oracle(app.program.session, topics, self._views, self._plan.reads, self._plan.meant)
        let_compile(self._plan, app)
        for step in leg.steps:
            self._figures.compacted += apply(step, self._plan, app.log)
            running = app.batches()
            while True:
                with timed(self._figures, "batches"):
                    progress = next(running, None)
                if progress is None:
                    break
                with timed(self._figures, "comparing"):
                    self._check_kept(app)
                    self._compare(app, oracle, progress)
            done += 1
        return done

    def _check_kept(self, app: App) -> None:
        """What passes planning must run."""
        for name, reason in app.not_kept.items():
            if name not in self._out:
                self._out.add(name)
                self._found(Finding(name, self._views[name], 0, error=reason, cause=f"not kept: {reason[:30]}"))

    def _compare(self, app: App, oracle: Oracle, progress: Progress) -> None:
        """Compares all views but those that are known to be wrong, and those that read them."""
        if app.pipeline.generation.status == "building":
            # It is being built again, which is a finding already; readers see what was built before.
            return
        self._figures.batches += 1
        if not oracle.move(app.log, progress.position):
            return
        for name in self._views:
            if name not in self._out and not self._plan.reads[name] & self._out:
                self._compare_one(name, app, oracle, progress)

    def _compare_one(self, name: str, app: App, oracle: Oracle, progress: Progress) -> None:
        sql = self._views[name]

        def settled() -> pa.Table:
            with timed(self._figures, "settled answers"):
                return Batches(app.program, app.log).content(name, progress.position)

        try:
            content = app.snapshot([name], at_least=progress.position).tables[name]
            verdict = oracle.judge(name, content, settled, has_rules=has_rules(app, name, self._plan.reads[name]))
        except RawFailed as error:
            self._figures.undecided[sql] = str(error)[:500]
            self._out.add(name)
            return
        except Exception as error:  # noqa: BLE001 (a view that cannot be read is a finding)
            self._out.add(name)
            self._found(replace(failure(error, self._views, progress.batch), view=name, sql=sql))
            return
        self._figures.comparisons += 1
        self._figures.rows += content.num_rows
        self._figures.without_rows += content.num_rows == 0
        self._figures.open += verdict.open
        self._figures.timed += bool(time_calls(sql))
        if verdict.differences:
            self._out.add(name)
            self._found(Finding(name, sql, progress.batch, verdict.differences, note=verdict.note))

    def _verify(self, app: App) -> None:
        """Asks `verify` about some views that are right."""
        dice = seeded(self._plan.seed)
        left = [name for name in self._views if name not in self._out and not self._plan.reads[name] & self._out]
        for name in dice.sample(left, min(len(left), 3)):
            self._figures.verified += 1
            with timed(self._figures, "verifying"):
                found = app.verify(name)
            if not found.equal:
                self._found(
                    Finding(name, self._views[name], -1, found.differences, note="the view is right; verify errs")
                )

    def _suspects(self, done: int, error: Exception) -> list[str]:
        """The views that stop the pipeline after this many steps, each of which is a finding; none if none is found."""
        named = getattr(error, "view", None)
        if named in self._views:
            self.findings.append(failure(error, self._views, done))
            return [str(named)]
        search = _Search(self._plan, self._folder, done)
        found = search.culprits(list(self._views))
        for name, cause in found.items():
            self.findings.append(replace(failure(cause, self._views, done), view=name, sql=self._views[name]))
        if not found:
            self.findings.append(failure(error, self._views, done))
        return list(found)


class _Stop(Exception):
    """One finding is enough."""


class _Search:
    """Looks for the views that stop a pipeline: some of them are run without the others, over the same commits."""

    def __init__(self, plan: RoundPlan, folder: Path, done: int) -> None:
        self._plan, self._folder, self._done = plan, folder, done
        self._until = time.monotonic() + _SUSPECTS_SECONDS_MAX
        self._trials = 0

    def culprits(self, names: Sequence[str]) -> dict[str, Exception]:
        """Those of these views that fail, each alone with what it reads."""
        if time.monotonic() > self._until:
            return {}
        error = self._fails(names)
        if error is None:
            return {}
        if len(names) == 1:
            return {names[0]: error}
        middle = len(names) // 2
        found = self.culprits(names[:middle])
        rest = [name for name in names[middle:] if not self._plan.reads[name] & found.keys()]
        return {**found, **(self.culprits(rest) if rest else {})}

    def _fails(self, names: Sequence[str]) -> Exception | None:
        self._trials += 1
        folder = self._folder / f"search{self._trials}"
        views, steps = self._plan.needed(names), 0
        try:
            for leg in self._plan.legs:
                with open_app(self._plan, views, leg, folder) as app:
                    for step in leg.steps:
                        if steps == 0:
                            app.catch_up(START)
                        apply(step, self._plan, app.log)
                        app.catch_up()
                        steps += 1
                        if steps > self._done:
                            return None
        except Exception as error:  # noqa: BLE001 (this is what is looked for)
            return error
        return None
