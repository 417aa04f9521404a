"""Choosing the views of a round: random queries that raw Spark can run and that headwater accepts."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from headwater.errors import InvalidQuery, UnsupportedQuery
from headwater.log.embedded import open_log
from headwater.log.topic import Topic
from headwater.spark.program import Program
from headwater.testing.fuzzing.changes import Commit, append
from headwater.testing.fuzzing.findings import Figures, Finding
from headwater.testing.fuzzing.oracle import Oracle, RawFailed
from headwater.testing.fuzzing.plans import create_topics
from headwater.testing.fuzzing.queries import Queries
from headwater.testing.fuzzing.relations import Relation, topic_relation
from headwater.testing.fuzzing.topics import TopicPlan

_DEPTHS = (0, 0, 0, 1, 1, 2, 3)
_TRIES = 4
"""Queries that are made for each one that is wanted, at most."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Views by name, and for each the topics and views that it reads, directly or not."""

    views: Mapping[str, str]
    reads: Mapping[str, frozenset[str]]


def choose(
    session: Any,
    dice: Random,
    topics: Sequence[TopicPlan],
    first: Sequence[Commit],
    count: int,
    folder: Path,
    figures: Figures,
) -> Chosen:
    """Views for a round. `folder` takes a log with the first commits, over which raw Spark runs them.

    Most queries that have no rows then are left out. What headwater refuses is counted and left out, too, with all
    that reads it; what it should have refused and has not is a finding.
    """
    with open_log(folder) as log:
        create_topics(log.create, topics)
        for commit in first:
            append(log, commit)
        known = log.topics()
        made = _made(session, dice, topics, known, count, log, figures)
    views = {name: relation.sql for name, relation in made.items() if not relation.clock}
    reads = {name: relation.reads for name, relation in made.items()}
    chosen = accepted(session, known, Chosen(views, reads), figures)
    for name, relation in made.items():
        if relation.clock and relation.reads <= {*chosen.views, *(topic.name for topic in known)}:
            needed = {view: chosen.views[view] for view in chosen.views if view in relation.reads}
            if (
                accepted(session, known, Chosen({**needed, name: relation.sql}, reads), figures).views.keys()
                > needed.keys()
            ):
                figures.findings.append(Finding(name, relation.sql, 0, error="accepted", cause="accepted"))
    return chosen


def _made(
    session: Any,
    dice: Random,
    topics: Sequence[TopicPlan],
    known: Sequence[Topic],
    count: int,
    log: Any,
    figures: Figures,
) -> dict[str, Relation]:
    """Queries that raw Spark takes."""
    queries = Queries(dice, [topic_relation(topic) for topic in topics])
    views: dict[str, str] = {}
    reads: dict[str, frozenset[str]] = {}
    oracle = Oracle(session, known, views, reads)
    oracle.move(log, log.position())
    made: dict[str, Relation] = {}
    for _ in range(count * _TRIES):
        if len(made) == count:
            break
        query = queries.query(dice.choice(_DEPTHS))
        name = f"{dice.choice(('v', 'v', 'V'))}{len(made)}"
        views[name], reads[name] = query.sql, query.reads
        try:
            empty = oracle.answer(name).num_rows == 0
        except RawFailed as error:
            figures.invalid += 1
            figures.examples.setdefault(f"invalid: {str(error)[:60]}", query.sql)
            empty = True
        if empty and not query.clock and dice.random() < 0.95:
            oracle.forget(name)
            del views[name], reads[name]
            continue
        made[name] = query
        if not query.clock:
            queries.add(Relation(name, query.columns, query.rows, query.reads))
    return made


def accepted(session: Any, topics: Sequence[Topic], chosen: Chosen, figures: Figures) -> Chosen:
    """The views that headwater plans. Those that it refuses, and those that read them, are left out."""
    while chosen.views:
        try:
            Program(session, topics, chosen.views)
        except InvalidQuery as error:
            refused = str(error.view)
            figures.refused["invalid"] += 1
            figures.examples.setdefault(f"headwater: {error.reason[:60]}", chosen.views.get(refused, ""))
        except UnsupportedQuery as error:
            refused = str(error.view)
            figures.refused[error.construct] += 1
            figures.examples.setdefault(error.construct, chosen.views.get(refused, ""))
        except Exception:  # noqa: BLE001 (whatever else planning fails with is a finding)
            refused, text = _culprit(session, topics, chosen)
            figures.findings.append(
                Finding(refused, chosen.views[refused], 0, error=text, cause=text.strip().splitlines()[-1][:80])
            )
        else:
            return chosen
        if refused not in chosen.views:
            raise AssertionError(f"Headwater refuses {refused!r}, which is no view.")
        chosen = _without(chosen, refused)
    return chosen


def _culprit(session: Any, topics: Sequence[Topic], chosen: Chosen) -> tuple[str, str]:
    """A view whose planning fails, and how."""
    text = ""
    for name in chosen.views:
        needed = {other: sql for other, sql in chosen.views.items() if other == name or other in chosen.reads[name]}
        try:
            Program(session, topics, needed)
        except (InvalidQuery, UnsupportedQuery):
            continue
        except Exception:  # noqa: BLE001 (as above)
            return name, traceback.format_exc(limit=-4)
    return next(iter(chosen.views)), text or "Planning fails with several views, and with each alone it does not."


def _without(chosen: Chosen, name: str) -> Chosen:
    left = {view: sql for view, sql in chosen.views.items() if view != name and name not in chosen.reads[view]}
    return Chosen(left, {view: chosen.reads[view] for view in left})
