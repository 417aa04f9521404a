"""Raw Spark as an oracle: what it answers to the views of a case file.

It runs every view over the same rows in several arrangements. What they all agree on is what the SQL means; where they
differ, the SQL leaves the answer open.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.spark.catalyst.disturbing import DISTURBING_SETTINGS
from headwater.spark.catalyst.history import names_system_columns
from headwater.spark.raw import FEW_ROWS, RawSpark
from headwater.spark.topics import topic_schema
from tests.sql.casefile import TICKS, CaseFile, View
from tests.sql.rendering import Written, table_cells, unordered

Content = Mapping[Topic, pa.Table]
"""The rows that views are about: of a topic with a key the newest of each key, else all."""

NOTHING: Content = {}
_HISTORY = re.compile(r"\b(changes|versions)\(")

RUNS_AT_LEAST = 3
RUNS_UNTIL_OPEN = 8
"""A view that is said to be open has given two answers by then."""
RUNS_AT_MOST = 24
"""And every row that is expected of it has been in one of them by then."""
_SETTINGS = {**FEW_ROWS, "spark.sql.autoBroadcastJoinThreshold": "-1"}


def content_of(log: Log) -> Content:
    """The rows of all topics now."""
    tables = {topic: log.table(topic.name) if topic.key else log.scan(topic.name) for topic in log.topics()}
    return {topic: rows.select(topic.schema.names).combine_chunks() for topic, rows in tables.items()}


def records_of(log: Log, file: CaseFile) -> Content:
    """All records of all topics now, if some view of a file reads more of a topic than its rows."""
    if not any(names_system_columns(view.sql) or _HISTORY.search(view.sql) for view in file.views):
        return {}
    return {topic: log.scan(topic.name) for topic in log.topics()}


def arranged(content: Content, run: int) -> Content:
    """The rows as they are, the other way round (so that each of two rows comes first once), and then shuffled."""
    if run == 0:
        return content
    places = reversed if run == 1 else np.random.default_rng(run).permutation
    return {
        topic: rows.take(pa.array(list(places(range(rows.num_rows))), pa.int64())) for topic, rows in content.items()
    }


def with_clock(sql: str, content: Content) -> str:
    """The query with the newest tick of the clock in the place of `now()`, which both oracles have for their own."""
    ticks = [rows["at"].to_pylist() for topic, rows in content.items() if topic.name == TICKS]
    if not ticks:
        return sql
    moment = f"CAST('{max(ticks[0])}' AS TIMESTAMP)" if ticks[0] else "CAST(NULL AS TIMESTAMP)"
    return re.sub(r"\bnow\(\)", moment, sql)


@dataclass(slots=True)
class Answers:
    """The different answers of raw Spark to one view: one, or several if the SQL leaves it open."""

    first: pa.Table
    written: list[Written] = field(default_factory=list)

    def add(self, answer: pa.Table) -> None:
        written = table_cells(answer)
        if written not in self.written:
            self.written.append(written)

    @property
    def are_open(self) -> bool:
        return len(self.written) > 1

    def impossible(self, expected: Written) -> list[list[str]]:
        """The rows of a table that no answer has, however it orders lists."""
        known = {tuple(map(unordered, row)) for answer in self.written for row in answer[1:]}
        return [row for row in expected[1:] if tuple(map(unordered, row)) not in known]


class SparkOracle:
    """A Spark that knows the views of a case file by their SQL, and nothing else."""

    def __init__(self, session: SparkSession, file: CaseFile) -> None:
        self._raw, self._file = RawSpark(session, _SETTINGS), file
        self._disturbed = RawSpark(session, {**_SETTINGS, **DISTURBING_SETTINGS})

    def answer(
        self, content: Content, views: Collection[str], run: int = 0, *, records: Content = NOTHING
    ) -> dict[str, pa.Table]:
        """What the queries of some views give; from the second run on, with rows in other orders."""
        raw = self._disturbed if run else self._raw
        for topic, rows in records.items():
            raw.put_records(topic, rows)
        for topic, rows in content.items():
            raw.put(topic.name, rows, topic_schema(topic))
        found = {}
        for view in self._file.views:
            frame = raw.frame(with_clock(view.sql, content), seed=run or None)
            raw.name(view.name, frame)
            if view.name in views:
                found[view.name] = raw.answer(frame)
        return found

    def answers(self, content: Content, records: Content = NOTHING) -> dict[str, Answers]:
        """What the queries of all views give in several arrangements, in more of them where they may differ."""
        found: dict[str, Answers] = {}
        for run in range(RUNS_AT_MOST):
            wanted = [view.name for view in self._file.views if _tells_more(view, found.get(view.name), run)]
            if not wanted:
                break
            answered = self.answer(arranged(content, run), wanted, run, records=arranged(records, run))
            for view, answer in answered.items():
                found.setdefault(view, Answers(answer)).add(answer)
        return found

    def fails(self, view: View) -> bool:
        """Whether Spark gives no answer to a view."""
        try:
            self._raw.answer(self._raw.frame(view.sql))
        except (PySparkException, Py4JJavaError):
            return True
        return False


def _tells_more(view: View, answers: Answers | None, run: int) -> bool:
    """Whether another run may tell more about a view."""
    if view.spark:
        return False
    if answers is None or run < RUNS_AT_LEAST:
        return True
    if not view.open:
        return False
    if not answers.are_open:
        return run < RUNS_UNTIL_OPEN
    return bool(answers.impossible(view.table))
