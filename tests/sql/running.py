"""Running case files: all views of a file in one application, batch by batch, each compared with the batch query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from headwater.app import App
from headwater.engine.comparison import Difference, differences
from headwater.spark.verification import Batches
from tests.sql.casefile import CaseFile, Change


@dataclass(slots=True)
class Outcome:
    """What became of the views of a file: their last content, and where they differed from the batch query."""

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
    outcome = Outcome(differences={view.name: [] for view in file.views})
    with open_app(file, directory) as app:
        batches = Batches(app.program, app.log)
        # Shuffling a few rows into one partition is quicker.
        batches._session.conf.set("spark.sql.shuffle.partitions", "1")
        _compare(app, batches, "nothing yet", outcome)
        for step in file.steps:
            for changes in step.commits:
                append(app, changes)
            _compare(app, batches, step.title, outcome)
    return outcome


def run_at_once(file: CaseFile, directory: Path) -> Outcome:
    """All steps are one batch, shared by several tasks."""
    with open_app(file, directory, one_task_rows_max=0) as app:
        app.catch_up()
        for step in file.steps:
            for changes in step.commits:
                append(app, changes)
        app.catch_up()
        return Outcome(dict(app.snapshot().tables))


def append(app: App, changes: Sequence[Change]) -> None:
    """One commit, its changes in their order."""
    with app.log.commit() as commit:
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
