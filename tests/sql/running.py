"""Running case files: all views of a file in one application, batch by batch, each compared with the batch query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from headwater.app import App
from headwater.engine.comparison import Difference, differences
from headwater.engine.pipeline import Pipeline
from headwater.log.embedded import EmbeddedLog
from headwater.spark.program import Program
from headwater.spark.verification import Batches
from tests.sql.casefile import CaseFile, Change

_FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings under which Spark runs a batch query over a few rows most quickly: interpreted, in one partition."""


@dataclass(slots=True)
class Outcome:
    """What became of the views of a file: their last content, and where they differed from the batch query."""

    program: Program
    content: dict[str, pa.Table] = field(default_factory=dict)
    differences: dict[str, list[tuple[str, Sequence[Difference]]]] = field(default_factory=dict)


def open_app(file: CaseFile, directory: Path, **options: int) -> App:
    app = App(file.name, log=directory, master="local[2]", **options)
    for topic in file.topics:
        app.topic(topic.name, topic.schema, key=topic.key, partitions=topic.partitions)
    for view in file.views:
        app.view(view.name, view.sql)
    return app


def run_by_steps(file: CaseFile, directory: Path) -> Outcome:
    """Every step is a batch, after which every view is compared with its query."""
    with open_app(file, directory) as app:
        outcome = Outcome(app.program, differences={view.name: [] for view in file.views})
        batches = Batches(app.program, app.log)
        for name, value in _FOR_FEW_ROWS.items():
            batches._session.conf.set(name, value)
        _compare(app, batches, "nothing yet", outcome)
        for step in file.steps:
            for changes in step.commits:
                append(app.log, changes)
            _compare(app, batches, step.title, outcome)
    return outcome


def run_at_once(file: CaseFile, directory: Path, program: Program) -> Outcome:
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
        return Outcome(program, dict(app.snapshot().tables))


def append(log: EmbeddedLog, changes: Sequence[Change]) -> None:
    """One commit, its changes in their order."""
    with log.commit() as commit:
        for (topic, deleted), group in groupby(changes, key=lambda change: (change.topic, change.deleted)):
            rows = [change.row for change in group]
            if deleted:
                commit.delete(topic, rows)
            else:
                commit.append(topic, rows)


def _compare(app: App, batches: Batches, title: str, outcome: Outcome) -> None:
    app.catch_up()
    snapshot = app.snapshot()
    outcome.content = dict(snapshot.tables)
    for view, expected in batches.contents(snapshot.tables, snapshot.position):
        found = differences(snapshot.tables[view], expected)
        if found:
            outcome.differences[view].append((title, found))
