"""Choosing the views of a round: random queries that raw Spark can run and that headwater accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from headwater.engine.comparison import differences, has_doubles
from headwater.errors import InvalidQuery, UnsupportedQuery
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.spark.catalyst.determinism import CORRELATED
from headwater.spark.program import Program
from tools.fuzzing.changes import Commit, append
from tools.fuzzing.findings import Figures, Finding
from tools.fuzzing.oracle import Oracle, RawFailed
from tools.fuzzing.plans import create_topics
from tools.fuzzing.queries import Queries
from tools.fuzzing.relations import Relation, history_relations, topic_relation
from tools.fuzzing.running import failure
from tools.fuzzing.times import begin
from tools.fuzzing.topics import TopicPlan

_DEPTHS = (0, 0, 0, 1, 1, 2, 3)
_ORDERS = 4
"""In how many other orders of rows it is asked whether an answer is open."""
_TRIES = 4
"""Queries that are made for each one that is wanted, at most."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Views by name, and for each the topics and views that it reads, directly or not; `meant` is for the oracle.

    `settled` are those for which a rule of headwater decides what SQL leaves open.
    """

    views: Mapping[str, str]
    reads: Mapping[str, frozenset[str]]
    meant: Mapping[str, str] = field(default_factory=dict)
    settled: frozenset[str] = frozenset()


def choose(
    session: Any,
    dice: Random,
    topics: Sequence[TopicPlan],
    first: Sequence[Commit],
    count: int,
    folder: Path,
    figures: Figures,
    *,
    round_number: int = 0,
    stop_at_first: bool = False,
) -> Chosen:
    """Views for a round. `folder` takes a log with the first commits, over which raw Spark runs them.

    Most queries that have no rows then are left out. What headwater refuses is counted and left out, too; what it
    should have refused and has not is a finding, the first of which may be enough.
    """
    with EmbeddedLog(folder) as log:
        create_topics(log.create, topics)
        begin(log, [topic.name for topic in topics])
        for commit in first:
            append(log, commit)
        return _Choice(session, dice, topics, log, figures, round_number).views(count, stop_at_first=stop_at_first)


class _Choice:
    def __init__(
        self,
        session: Any,
        dice: Random,
        topics: Sequence[TopicPlan],
        log: Log,
        figures: Figures,
        round_number: int,
    ) -> None:
        self._session, self._dice, self._figures = session, dice, figures
        self._topics = log.topics()
        self._views: dict[str, str] = {}
        self._reads: dict[str, frozenset[str]] = {}
        histories = [one for topic in topics for one in history_relations(topic)]
        self._queries = Queries(dice, [*(topic_relation(topic) for topic in topics), *histories], round_number)
        self._oracle = Oracle(session, self._topics, self._views, self._reads, self._queries.meant)
        self._oracle.move(log, log.position())

    def views(self, count: int, *, stop_at_first: bool) -> Chosen:
        """This many views, if that many are found among the queries that are made."""
        for _ in range(count * _TRIES):
            if len(self._views) == count or (stop_at_first and self._figures.findings):
                break
            query = self._queries.query(self._dice.choice(_DEPTHS))
            name = f"{self._dice.choice(('v', 'v', 'V'))}{len(self._views)}"
            self._views[name], self._reads[name] = query.sql, query.reads
            if not self._is_good(name, query):
                self._oracle.forget(name)
                del self._views[name], self._reads[name]
            else:
                self._queries.add(Relation(name, query.columns, query.rows, query.reads))
        used = {
            said: meant
            for said, meant in self._queries.meant.items()
            if any(said in sql for sql in self._views.values())
        }
        return Chosen(self._views, self._reads, used)

    def _is_good(self, name: str, query: Relation) -> bool:
        """Whether raw Spark has an answer with rows, and headwater takes the query."""
        try:
            empty = self._oracle.answer(name).num_rows == 0
        except RawFailed as error:
            self._figures.invalid += 1
            self._figures.examples.setdefault(f"invalid: {str(error)[:60]}", query.sql)
            return False
        if empty and self._dice.random() < 0.95:
            return False
        needed = {view: sql for view, sql in self._views.items() if view == name or view in query.reads}
        found = accepted(self._session, self._topics, Chosen(needed, self._reads), self._figures)
        if name not in found.views:
            return False
        if query.clock:
            self._figures.findings.append(Finding(name, query.sql, 0, error="It is accepted.", cause="accepted"))
            return False
        if query.open and not found.settled and self._is_open(name):
            said = "SQL leaves it open, no rule decides, and it is accepted."
            self._figures.findings.append(Finding(name, query.sql, 0, error=said, cause="accepted"))
            return False
        return True

    def _is_open(self, name: str) -> bool:
        """Whether raw Spark answers differently when rows come in another order; doubles may do so in any query."""
        answer = self._oracle.answer(name)
        if any(has_doubles(column.type) for column in answer.schema):
            return False
        try:
            others = self._oracle.other_answers(name, _ORDERS)
        except RawFailed:
            return False
        return any(differences(answer, other.cast(answer.schema)) for other in others)


def accepted(session: Any, topics: Sequence[Topic], chosen: Chosen, figures: Figures) -> Chosen:
    """The views that headwater plans. Those that it refuses, and those that read them, are left out."""
    while chosen.views:
        try:
            program = Program(session, topics, chosen.views)
        except InvalidQuery as error:
            refused = str(error.view)
            figures.refused["invalid"] += 1
            figures.examples.setdefault(f"headwater: {error.reason[:60]}", chosen.views.get(refused, ""))
        except UnsupportedQuery as error:
            refused = str(error.view)
            figures.refused[error.construct] += 1
            figures.examples.setdefault(error.construct, chosen.views.get(refused, ""))
        except Exception as error:  # noqa: BLE001 (whatever else planning fails with is a finding)
            refused, cause = _culprit(session, topics, chosen) or (next(iter(chosen.views)), error)
            figures.findings.append(replace(failure(cause, chosen.views, 0), view=refused, sql=chosen.views[refused]))
        else:
            by_rule = {name for name, planned in program.views.items() if set(planned.rules) - {CORRELATED}}
            return replace(chosen, settled=frozenset(by_rule))
        if refused not in chosen.views:
            raise AssertionError(f"Headwater refuses {refused!r}, which is no view.")
        chosen = _without(chosen, refused)
    return chosen


def _culprit(session: Any, topics: Sequence[Topic], chosen: Chosen) -> tuple[str, Exception] | None:
    """A view whose planning fails, and how; None if it takes several."""
    for name in chosen.views:
        needed = {other: sql for other, sql in chosen.views.items() if other == name or other in chosen.reads[name]}
        try:
            Program(session, topics, needed)
        except (InvalidQuery, UnsupportedQuery):
            continue
        except Exception as error:  # noqa: BLE001 (as above)
            return name, error
    return None


def _without(chosen: Chosen, name: str) -> Chosen:
    left = {view: sql for view, sql in chosen.views.items() if view != name and name not in chosen.reads[view]}
    return Chosen(left, {view: chosen.reads[view] for view in left})
