"""Running case files: all views of a file in one application, batch by batch or in one batch, and by raw Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.engine.comparison import Difference, differences
from headwater.engine.pipeline import Pipeline
from headwater.log.port import Log
from headwater.spark.program import Program
from headwater.spark.raw import FEW_ROWS
from headwater.spark.verification import Batches
from tests.sql.casefile import TICKS, CaseFile, Change
from tests.sql.oracles import Answers, Content, SparkOracle, content_of, records_of

Tables = Mapping[str, pa.Table]
"""The rows of views, by their names."""


@dataclass(slots=True)
class Outcome:
    """What headwater made of the views of a file."""

    program: Program
    after: list[Tables] = field(default_factory=list)
    """The views before the first step and after every step."""
    wrong: dict[str, list[Sequence[Difference]]] = field(default_factory=dict)
    """At the same moments, how the open views differ from a batch query that has headwater's rules."""


@dataclass(slots=True)
class Oracle:
    """What raw Spark says about the views of a file."""

    content: Content
    """The rows of the topics after the last step."""
    after: Sequence[Tables]
    """The closed views before the first step and after every step."""
    answers: Mapping[str, Answers]
    """All views after the last step."""
    failing: frozenset[str]
    """The views to which raw Spark gives no answer."""
    records: Content = field(default_factory=dict)
    """All records of the topics then, if a view reads more of them than their rows."""


def open_app(file: CaseFile, directory: Path) -> App:
    app = App(file.name, log=directory, master="local[2]")
    if any(change.topic == TICKS for step in file.steps for changes in step.commits for change in changes):
        app.clock()
    for topic in file.topics:
        app.topic(topic.name, topic.schema, key=topic.key, partitions=topic.partitions)
    for view in file.views:
        app.view(view.name, view.sql)
    return app


def run_by_steps(file: CaseFile, directory: Path) -> Outcome:
    """Every step is a batch."""
    with open_app(file, directory) as app:
        outcome, batches = Outcome(app.program), Batches(app.program, app.log)
        for name, value in FEW_ROWS.items():
            batches._session.conf.set(name, value)
        _look(file, app, batches, outcome)
        for step in file.steps:
            for changes in step.commits:
                append(app.log, changes)
            _look(file, app, batches, outcome)
    return outcome


def _look(file: CaseFile, app: App, batches: Batches, outcome: Outcome) -> None:
    app.catch_up()
    snapshot = app.snapshot()
    outcome.after.append(snapshot.tables)
    without_oracle = [view.name for view in file.views if view.open or view.spark]
    for view, settled in batches.contents(without_oracle, snapshot.position):
        found: Sequence[Difference] = differences(snapshot.tables[view], settled)
        if found:
            found = batches.verify(view, snapshot.tables[view], snapshot.position).differences
        outcome.wrong.setdefault(view, []).append(found)


def run_at_once(file: CaseFile, directory: Path, program: Program) -> Tables:
    """All steps are one batch, shared by several tasks. The program is the one that ran the file by steps."""
    with open_app(file, directory) as app:
        pipeline = Pipeline(app.log, app.directory, program, policies={}, one_task_rows_max=0)
        try:
            for _ in pipeline.catch_up():
                pass
            for step in file.steps:
                for changes in step.commits:
                    append(app.log, changes)
            for _ in pipeline.catch_up():
                pass
        finally:
            pipeline.close()
        return app.snapshot().tables


def run_by_raw_spark(session: SparkSession, file: CaseFile, directory: Path) -> Oracle:
    """The queries of a file by raw Spark: after every step as the rows are, and at the end in several arrangements."""
    spark = SparkOracle(session, file)
    closed = [view.name for view in file.views if not view.open and not view.spark]
    with open_app(file, directory) as app:
        content, records = content_of(app.log), records_of(app.log, file)
        after = [spark.answer(content, closed, records=records)]
        for step in file.steps:
            for changes in step.commits:
                append(app.log, changes)
            content, records = content_of(app.log), records_of(app.log, file)
            if step is not file.steps[-1]:
                after.append(spark.answer(content, closed, records=records))
    answers = spark.answers(content, records)
    after.append({name: found.first for name, found in answers.items() if name in closed})
    failing = frozenset(view.name for view in file.views if view.spark and spark.fails(view))
    return Oracle(content, after, answers, failing, records)


def append(log: Log, changes: Sequence[Change]) -> None:
    """One commit, its changes in their order."""
    if changes and changes[0].topic == TICKS:
        log.tick(changes[0].row["at"])
        return
    with log.commit() as commit:
        for (topic, deleted), group in groupby(changes, key=lambda change: (change.topic, change.deleted)):
            rows = [change.row for change in group]
            if deleted:
                commit.delete(topic, rows)
            else:
                commit.append(topic, rows)
