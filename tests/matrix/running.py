"""Running the cases of the matrix: planned one by one, then kept up to date many in one application.

What one view does wrong is found, counted and left out; the others continue without it.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pyspark.sql import SparkSession

from headwater.app import App
from headwater.errors import InvalidQuery, UnsupportedQuery
from headwater.spark.program import Program
from tests.matrix.cases import Case
from tests.matrix.comparing import Verdict, judge
from tests.matrix.oracle import Answers, Oracle, first_line
from tests.matrix.worlds import World

MASTER = "local[2]"
_COLLECTED = re.compile(r"\b(collect_list|collect_set|array_agg|collect_union)\(", re.IGNORECASE)
"""Functions that are documented to collect in any order."""
Status: TypeAlias = Literal["equal", "open", "refused", "invalid", "undecided", "failed"]
Say: TypeAlias = Callable[[str], None]


@dataclass(slots=True)
class Result:
    """What became of a case. `detail` is what refused it, or the first thing that went wrong."""

    case: Case
    status: Status
    detail: str = ""
    step: str = ""
    construct: str = ""
    comparisons: int = 0
    rows: int = 0
    notes: list[str] = field(default_factory=list)


def counted(results: Mapping[str, Result]) -> str:
    """How many results there are of each kind, in one line."""
    found = Counter(result.status for result in results.values())
    return ", ".join(f"{count} {status}" for status, count in found.items())


class Matrix:
    """Runs cases over worlds; `results` has what became of each, by its name."""

    def __init__(self, session: SparkSession, worlds: Mapping[str, World], say: Say = lambda _: None) -> None:
        self.session, self._worlds, self._say = session, worlds, say
        self.results: dict[str, Result] = {}
        self.findings: list[str] = []
        self._applications = 0

    def run(self, cases: Sequence[Case], *, together: int = 60) -> Iterator[int]:
        """Runs cases, about this many in one application; yields after each how many are done."""
        for name, world in self._worlds.items():
            mine = [case for case in cases if case.world == name]
            oracle, valid = Oracle(self.session, world), dict[str, Answers]()
            for first in range(0, len(mine), together):
                last = min(first + together, len(mine))
                valid |= self._valid(world, oracle, mine[first:last])
                self._say(f"{name}: {last} of {len(mine)} cases, {len(valid)} to be run")
                if len(valid) >= together or (valid and last == len(mine)):
                    _Runs(self, world, oracle, valid).run()
                    self._say(counted(self.results))
                    oracle, valid = Oracle(self.session, world), {}
                yield len(self.results)

    def _valid(self, world: World, oracle: Oracle, cases: Sequence[Case]) -> dict[str, Answers]:
        """The cases that both Spark and headwater accept, with Spark's answers."""
        checked = oracle.checked(cases)
        accepted = []
        program = Program(self.session, world.topics, {})
        for one in checked.values():
            if one.invalid:
                self.results[one.case.name] = Result(one.case, "invalid", one.invalid)
            elif self._planned(program, one.case):
                accepted.append(one)
        oracle.answer(accepted)
        for one in accepted:
            if one.failure:
                self.results[one.case.name] = Result(one.case, "undecided", one.failure)
        return {one.case.name: one for one in accepted if not one.failure}

    def _planned(self, program: Program, case: Case) -> bool:
        """Whether headwater accepts a case; if not, it says so in words, or fails."""
        try:
            program.check(case.name, case.sql)
        except UnsupportedQuery as error:
            self.results[case.name] = Result(case, "refused", str(error), construct=error.construct)
        except InvalidQuery as error:
            self.results[case.name] = Result(case, "refused", str(error), construct=f"as invalid: {error.reason[:80]}")
        except Exception as error:  # noqa: BLE001 (whatever planning fails with is a finding)
            self.results[case.name] = Result(case, "failed", first_line(error), step="planning")
        else:
            return True
        return False

    def application(self) -> str:
        """A name for another application."""
        self._applications += 1
        return f"matrix{self._applications}"


class _Runs:
    """Runs the views of one application through all moments of a world."""

    def __init__(self, matrix: Matrix, world: World, oracle: Oracle, answers: Mapping[str, Answers]) -> None:
        self._matrix, self._world, self._oracle, self._answers = matrix, world, oracle, answers
        self._results = {name: Result(one.case, "equal") for name, one in answers.items()}
        self._going = dict(answers)
        # Views that turned out wrong stay in the application: without them it would be another one.
        self._defined = list(answers)
        self._name = matrix.application()

    def run(self) -> None:
        app, number, opened = self._open(), 0, True
        while number < len(self._world.moments) and self._going:
            moment = self._world.moments[number]
            if moment.step.reopen and not opened:
                app = self._reopened(app)
            try:
                app.catch_up(moment.position)
            except Exception as error:  # noqa: BLE001 (whatever a batch fails with is a finding)
                app.close()
                self._blame(error, number)
                if number <= 1:
                    # Little was done: the others begin again, so that all that they do is incremental.
                    number, self._name = 0, self._matrix.application()
                app, opened = self._open(), True
                continue
            for name, reason in app.not_kept.items():
                if name in self._going:
                    self._fail(name, "first batch, of no records", f"planned, and cannot be run: {reason}")
            self._compare(app, number)
            number, opened = number + 1, False
        app.close()
        shutil.rmtree(app.directory, ignore_errors=True)
        self._matrix.results |= self._results

    def _open(self, views: Sequence[str] | None = None, name: str | None = None) -> App:
        app = App(name or self._name, log=self._world.directory, master=MASTER)
        for view in self._defined if views is None else views:
            app.view(view, self._answers[view].case.sql)
        return app

    def _reopened(self, app: App) -> App:
        before = app.published()
        app.close()
        app = self._open()
        try:
            after = app.pipeline.generation
        except Exception:  # noqa: BLE001 (the batch that follows fails with it)
            return app
        if before is not None and after.id != before.id:
            self._matrix.findings.append(
                f"{self._name}: opened again, the views were built again: {', '.join(self._unstable())}"
            )
        return app

    def _unstable(self) -> list[str]:
        """The views that are planned otherwise when they are planned again."""
        topics = self._world.topics
        session = self._matrix.session
        return [
            name
            for name, one in self._going.items()
            if len({Program(session, topics, {name: one.case.sql}).fingerprint for _ in range(2)}) > 1
        ] or ["none of them alone"]

    def _fail(self, name: str, step: str, detail: str) -> None:
        result = self._results[name]
        result.status, result.step, result.detail = "failed", step, detail
        self._going.pop(name, None)

    def _drop(self, name: str, step: str, detail: str) -> None:
        """Leaves a view out of the application."""
        self._defined.remove(name)
        if name in self._going:
            self._fail(name, step, detail)

    def _blame(self, error: Exception, number: int) -> None:
        """Finds the views that make a batch fail, and leaves them out."""
        step = self._world.moments[number].step.title
        named = getattr(error, "view", None)
        if named in self._defined:
            self._drop(named, step, first_line(error))
            return
        found = self._culprits(self._defined, number)
        for name, reason in found.items():
            self._drop(name, step, reason)
        if not found:
            # Nothing fails alone: all are given up together, and said so.
            for name in list(self._defined):
                self._drop(name, step, f"only together with others: {first_line(error)}")

    def _culprits(self, names: Sequence[str], number: int) -> dict[str, str]:
        """The views that fail alone, found by halves."""
        error = self._trial(names, number)
        if error is None:
            return {}
        named = getattr(error, "view", None)
        if named in names:
            others = [name for name in names if name != named]
            return {str(named): first_line(error)} | (self._culprits(others, number) if others else {})
        if len(names) == 1:
            return {names[0]: first_line(error)}
        middle = len(names) // 2
        return self._culprits(names[:middle], number) | self._culprits(names[middle:], number)

    def _trial(self, names: Sequence[str], number: int) -> Exception | None:
        """What some views fail with, from the first moment up to one."""
        app = self._open(names, self._matrix.application())
        try:
            for moment in self._world.moments[: number + 1]:
                app.catch_up(moment.position)
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            app.close()
            shutil.rmtree(app.directory, ignore_errors=True)
        return None

    def _compare(self, app: App, number: int) -> None:
        for name in list(self._going):
            verdict = self._judged(app, name, number)
            result = self._results[name]
            result.comparisons += 1
            result.rows += self._answers[name].tables[number].num_rows
            if verdict.outcome == "different":
                self._fail(name, self._world.moments[number].step.title, verdict.detail)
            elif verdict.outcome == "open":
                result.status = "open"
                if verdict.detail not in result.notes:
                    result.notes.append(verdict.detail)

    def _judged(self, app: App, name: str, number: int) -> Verdict:
        answers, position = self._answers[name], self._world.moments[number].position
        sql = answers.case.question
        try:
            snapshot = app.snapshot([name])
            if snapshot.position != position:
                return Verdict("different", f"is at {snapshot.position}, not at {position}")
            return judge(
                snapshot.tables[name],
                answers.tables[number],
                lambda: self._oracle.shuffled(sql, number),
                lambda: app.verify(name).equal,
                unordered=_COLLECTED.search(sql) is not None,
            )
        except Exception as error:  # noqa: BLE001 (a view that cannot be read is a finding)
            return Verdict("different", first_line(error))
