"""Verification: a view's SQL as an ordinary batch query over the log at the view's position, compared with the view.

The query is run by raw Spark: nothing of the planner, the kernels or the state takes part in it. Where SQL itself
leaves the answer open (rows that tie, the order of a list), Spark's answer is an accident. That it changes when the
rows are shuffled shows as much, and then the settled plan decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.engine.comparison import DOUBLES_WITHIN, Difference, differences, has_doubles, unexplained
from headwater.engine.frontiers import frontier_at
from headwater.engine.functions import Function
from headwater.engine.lateness import REASON, LateRule
from headwater.engine.publication import Base, Excluded
from headwater.engine.remembered import Remembered, Since
from headwater.errors import HeadwaterError, ViewFailed
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.position import Position
from headwater.spark.catalyst import Catalyst
from headwater.spark.catalyst.determinism import CORRECTED, SETS, settled
from headwater.spark.catalyst.disturbing import DISTURBING_SETTINGS
from headwater.spark.catalyst.history import Reference, analyze
from headwater.spark.catalyst.settling import CONSTANT_KEYS_RULE
from headwater.spark.failures import spark_fails, unexpected, view_failure
from headwater.spark.functions import register
from headwater.spark.past import past
from headwater.spark.program import Program
from headwater.spark.raw import FEW_ROWS, RawSpark
from headwater.spark.session import own_session
from headwater.spark.time_calls import with_moments
from headwater.spark.topics import record_schema, topic_schema
from headwater.spark.verdicts import with_verdicts
from headwater.views.frontier import NO_TIME, Frontier

RUNS_MAX = 12
"""How often raw Spark is asked, at the most, before an answer that never changes counts as the only one."""
_RUNS_FOR_DOUBLES = 10
_RUNS_TO_BE_SURE = 2
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_FEW = 100_000
"""Up to this many rows are answered most quickly by one task without compiling anything."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What the comparison of a view with the batch query found.

    Doubles may differ by `doubles_within`, relatively. `decided_by`: the rules that decided where SQL leaves the answer
    open. `excluded`: the records that were set aside because the view failed on them; both sides are without them.
    `since`: the first offset that counts, by topic and partition, of topics of which the view does not see everything.
    `base`: set if the view remembers deleted records. Then it was not compared with plain Spark, but with a replay of
    the records after the base, which start at `since`; what came before cannot be recomputed.
    """

    view: str
    position: Position
    rows: int
    differences: Sequence[Difference]
    doubles_within: float = DOUBLES_WITHIN
    decided_by: Sequence[str] = ()
    excluded: Sequence[Excluded] = ()
    since: Since = field(default_factory=dict)
    base: Base | None = None

    @property
    def equal(self) -> bool:
        return not self.differences


@dataclass(frozen=True, slots=True)
class Prefix:
    """The topics that views need, as they are at a position: what a query sees of each.

    `records` has all records of those topics of which views read more than their rows, `frontier` how far time is.
    """

    topics: Mapping[str, tuple[Topic, pa.Table]]
    needed: frozenset[str] = field(default_factory=frozenset)
    records: Mapping[str, pa.Table] = field(default_factory=dict)
    since: Since = field(default_factory=dict)
    frontier: Frontier = NO_TIME

    @property
    def rows(self) -> int:
        known = [rows for _, rows in self.topics.values()]
        return sum(rows.num_rows for rows in (*known, *self.records.values()))


class Batches:
    """Runs views as ordinary queries over a log, as it is at a position."""

    def __init__(self, program: Program, log: Log, functions: Sequence[Function] = ()) -> None:
        self._program, self._log, self._functions = program, log, functions
        self._session: SparkSession = own_session(program.session)
        self._session.conf.set("spark.sql.shuffle.partitions", str(program.tasks))
        self._session.conf.set(_EXCLUDED, f"{self._session.conf.get(_EXCLUDED)},{CONSTANT_KEYS_RULE}")
        for function in functions:
            register(self._session, function)
        self._catalyst = Catalyst(self._session)

    def content(self, view: str, position: Position, excluded: Sequence[Excluded] = ()) -> pa.Table:
        """What a view's query gives at a position, with every order settled."""
        return next(table for _, table in self.contents([view], position, excluded))

    def contents(
        self, views: Collection[str], position: Position, excluded: Sequence[Excluded] = ()
    ) -> Iterator[tuple[str, pa.Table]]:
        """As `content`, for several views. Raises `ViewFailed` if one fails on its records."""
        yield from self._settled(views, self._prefix(views, position, excluded))

    def verify(
        self,
        view: str,
        content: pa.Table,
        position: Position,
        excluded: Sequence[Excluded] = (),
        remembered: Remembered | None = None,
    ) -> Verification:
        """Compares the content of a view with what its query gives over the records that it is made of.

        Raises `HistoryGone` if some of these are not in the log any more.
        """
        prefix = self._prefix([view], position, excluded, remembered)
        needed = [planned for name, planned in self._program.views.items() if name in prefix.needed]
        rules = sorted({rule for planned in needed for rule in planned.rules})
        found, rows, decided = self._compare(view, content, prefix, rules)
        mine = [row for row in excluded if row.topic in prefix.topics]
        return Verification(view, position, rows, found, decided_by=decided, excluded=mine, since=prefix.since)

    def _compare(
        self, view: str, content: pa.Table, prefix: Prefix, rules: Sequence[str]
    ) -> tuple[Sequence[Difference], int, Sequence[str]]:
        """What differs from every answer that Spark may give, how many rows it has, and which rules decided."""
        answers: list[pa.Table] = []
        by_rule: list[Difference] | None = None
        found: list[Difference] = []
        by_nature = tuple(rule for rule in rules if rule == SETS)
        runs = RUNS_MAX if rules else _RUNS_FOR_DOUBLES if _in_doubles(content) else _RUNS_TO_BE_SURE
        for run in range(runs):
            answer = self._raw(view, prefix, run, required=run == 0 and not rules)
            if answer is not None:
                found = differences(content, answer)
                answers.append(answer)
                if not found or not unexplained(found, content, answers):
                    return [], answer.num_rows, by_nature
            if rules and by_rule is None:
                by_rule = differences(content, next(table for _, table in self._settled([view], prefix)))
            open_ = len(answers) > 1 and bool(differences(answers[0], answers[-1]))
            if by_rule == [] and (open_ or not answers or CORRECTED & set(rules)):
                return [], content.num_rows, rules
            if by_rule and run >= _RUNS_FOR_DOUBLES:
                break
        return by_rule or found, answers[-1].num_rows if answers else 0, ()

    def _raw(self, view: str, prefix: Prefix, run: int, *, required: bool) -> pa.Table | None:
        """What raw Spark answers; None if it breaks down. From run to run, rows come in another order and division."""
        settings = {
            **(FEW_ROWS if prefix.rows <= _FEW else {}),
            **(DISTURBING_SETTINGS if run else {}),
            "spark.sql.shuffle.partitions": str(1 + run % 3),
        }
        spark = RawSpark(self._program.session, settings)
        for function in self._functions:
            register(spark.session, function)
        for name, (topic, rows) in prefix.topics.items():
            spark.put(name, rows, topic_schema(topic), seed=run or None)
            if name in prefix.records:
                spark.put_records(topic, prefix.records[name], judged=name in self._program.late, seed=run or None)
        try:
            for name, planned in self._program.views.items():
                if name in prefix.needed:
                    seed = run or None if planned.rules else None
                    frame = spark.frame(
                        with_moments(planned.sql, prefix.frontier), sorted_sets=SETS in planned.rules, seed=seed
                    )
                    if name == view:
                        return spark.answer(frame).cast(planned.schema)
                    spark.name(name, frame)
        except (PySparkException, Py4JJavaError) as error:
            if required:
                raise _failure(view, error) from error
        return None

    def _settled(self, views: Collection[str], prefix: Prefix) -> Iterator[tuple[str, pa.Table]]:
        for name, (topic, rows) in prefix.topics.items():
            self._frame(rows, topic_schema(topic)).createOrReplaceTempView(f"`{name}`")
        for name, planned in self._program.views.items():
            if name in prefix.needed:
                history = {reference.folded: self._past(reference, prefix) for reference in planned.history}
                sql = with_moments(planned.sql, prefix.frontier)
                plan = settled(self._catalyst, sql, analyze(self._catalyst, sql, history)).plan
                frame = self._catalyst.frame(plan)
                # Where a rule decides, it decides once, no matter which process reads the view and how often.
                table = self._collected(name, frame) if name in views or planned.rules else None
                if name in views and table is not None:
                    yield name, table.cast(planned.schema)
                if planned.rules and table is not None:
                    frame = self._session.createDataFrame(table.combine_chunks(), schema=frame.schema)
                frame.createOrReplaceTempView(f"`{name}`")

    def _prefix(
        self,
        views: Collection[str],
        position: Position,
        excluded: Sequence[Excluded],
        remembered: Remembered | None = None,
    ) -> Prefix:
        needed = self._needed(views)
        read = [topic.name for topic in self._log.topics() if topic.name in needed]

        def since() -> Since:
            return {} if remembered is None else remembered.since(", ".join(views), read, position)

        counted = since()
        views_needed = [planned for name, planned in self._program.views.items() if name in needed]
        with_records = {reference.name for planned in views_needed for reference in planned.history}
        topics, records = {}, {}
        for topic in self._log.topics():
            if topic.name in needed:
                mine = [row for row in excluded if row.topic == topic.name]
                first = counted.get(topic.name, {})
                late = self._program.late.get(topic.name)
                topics[topic.name] = topic, _rows(self._log, topic, position, mine, first, late)
                if topic.name in with_records:
                    records[topic.name] = _records(self._log, topic, position, mine, first, late)
        # Retention may have deleted some of them while they were read.
        since()
        frontier = frontier_at(self._log, self._program.time_sources, position)
        return Prefix(topics, frozenset(needed), records, counted, frontier)

    def _past(self, reference: Reference, prefix: Prefix) -> DataFrame:
        topic, _ = prefix.topics[reference.name]
        records = prefix.records[topic.name]
        judged = topic.name in self._program.late
        return past(self._frame(records, record_schema(topic, judged=judged)), topic, reference, judged=judged)

    def _needed(self, views: Collection[str]) -> set[str]:
        """Views, and the topics and views that they name, directly or not.

        By their SQL: the optimizer may have found that a pipeline need not read all of them.
        """
        needed = set(views)
        # Each comes after those that it reads.
        for name, planned in reversed(self._program.views.items()):
            if name in needed:
                needed.update(planned.reads)
        return needed

    def _collected(self, view: str, frame: DataFrame) -> pa.Table:
        try:
            return self._catalyst.collect(frame)
        except (PySparkException, Py4JJavaError) as error:
            raise _failure(view, error) from error

    def _frame(self, rows: pa.Table, schema: StructType) -> DataFrame:
        # Spark takes an empty chunk for the end of a table.
        return self._session.createDataFrame(rows.select(schema.names).combine_chunks(), schema=schema)


def _failure(view: str, error: PySparkException | Py4JJavaError) -> HeadwaterError:
    """What a batch query that fails says about the view."""
    if isinstance(error, Py4JJavaError):
        return spark_fails(view, error)
    failure = view_failure(error, {}, {})
    return ViewFailed(view, failure.message) if failure else unexpected(error)


def _in_doubles(content: pa.Table) -> bool:
    return any(has_doubles(column.type) for column in content.schema)


def _rows(
    log: Log,
    topic: Topic,
    position: Position,
    excluded: Sequence[Excluded],
    first: Mapping[int, int],
    late: LateRule | None,
) -> pa.Table:
    """A topic as a query sees it: a stream's records, or a table's newest row per key."""
    if topic.key and not excluded and not first:
        return log.table(topic.name, at=position).select(topic.schema.names)
    records = _records(log, topic, position, excluded, first, late)
    if topic.key:
        records = _newest(records, topic)
    if late is not None:
        records = records.filter(pc.is_null(records[REASON]))
    return records.select(topic.schema.names)


def _records(
    log: Log,
    topic: Topic,
    position: Position,
    excluded: Sequence[Excluded],
    first: Mapping[int, int],
    late: LateRule | None,
) -> pa.Table:
    """The records of a topic, from some offsets on, but those that views refuse; by a rule, with its verdicts."""
    records = log.scan(topic.name, start=first or "earliest", end=position)
    if late is not None:
        records = with_verdicts(log, records, late, position)
    for row in excluded:
        mine = pc.and_(pc.equal(records["_partition"], row.partition), pc.equal(records["_offset"], row.offset))
        records = records.filter(pc.invert(mine))
    return records


def _newest(records: pa.Table, topic: Topic) -> pa.Table:
    """The newest record of each key, where it is no tombstone."""
    ordered = records.sort_by([("_commit", "ascending"), ("_offset", "ascending")])
    keys = zip(*(ordered[name].to_pylist() for name in topic.key), strict=True)
    last = {key: number for number, key in enumerate(keys)}
    newest = ordered.take(pa.array(sorted(last.values()), pa.int64()))
    return newest.filter(pc.invert(newest["_deleted"]))
