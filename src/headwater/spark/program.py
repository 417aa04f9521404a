"""A program: an application's views, planned, and ready to run batch after batch in Spark."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from headwater.engine.batch import Batch, StageNote
from headwater.engine.definition import DefinedTopic, DefinedView, Definition
from headwater.engine.explanation import Explanation
from headwater.engine.functions import Function
from headwater.engine.lateness import LateRule
from headwater.errors import HeadwaterError, InternalError, InvalidQuery, UnsupportedQuery
from headwater.log.topic import Topic
from headwater.model.ddl import format_ddl
from headwater.spark.builder import arrow_type
from headwater.spark.catalyst import Catalyst, Expression, plans, read
from headwater.spark.catalyst.determinism import settled
from headwater.spark.catalyst.history import Reference, analyze, names_system_columns
from headwater.spark.explaining import explain
from headwater.spark.failures import (
    breakdown,
    broken_invariant,
    in_view,
    query_failure,
    spark_fails,
    spark_stopped,
    unexpected,
    view_failure,
)
from headwater.spark.flow import Relation
from headwater.spark.functions import register
from headwater.spark.layout import laid_out
from headwater.spark.naming import in_order, references_of
from headwater.spark.numbering import numbered_alike
from headwater.spark.passes import optimized
from headwater.spark.planner import Planner
from headwater.spark.session import own_session
from headwater.spark.stage import BATCH
from headwater.spark.template import Template
from headwater.spark.time_calls import COLUMN, relation_of, time_calls, with_relations
from headwater.spark.topics import as_read, check_history, history_schema, topic_schema
from headwater.spark.wording import label
from headwater.views.zset import HASH, WEIGHT

VERSION = 7
"""Of how views are planned and kept. What was built by another version is rebuilt."""


@dataclass(frozen=True, slots=True)
class PlannedView:
    """A view as it was planned: its SQL, its columns, the rules that settled its orders, its operators, its inputs.

    `history`: the topics that it reads with their system columns, as changes or as versions.
    """

    name: str
    sql: str
    schema: pa.Schema
    rules: Sequence[str]
    operators: Sequence[int]
    reads: Sequence[str]
    history: Sequence[Reference] = ()


class Program:
    """Plans views over topics, and runs batches of them."""

    def __init__(
        self,
        session: SparkSession,
        topics: Sequence[Topic],
        views: Mapping[str, str],
        functions: Sequence[Function] = (),
        late: Mapping[str, LateRule] | None = None,
    ) -> None:
        self.session = own_session(session)
        self.late: Mapping[str, LateRule] = late or {}
        self.catalyst = Catalyst(self.session)
        self._leaves: dict[int, Reference] = {}
        self._schemas: dict[str, StructType] = {}
        self._relations: dict[Reference, Relation] = {}
        self._times: dict[int, str] = {}
        self._planner = Planner(self.catalyst, self._leaf, self._times)
        self._topics = {topic.name: topic for topic in topics}
        self._functions = functions
        self.views: dict[str, PlannedView] = {}
        for function in functions:
            register(self.session, function)
        self._references = {name: references_of(self.catalyst, name, sql) for name, sql in views.items()}
        named = {name: {reference.name for reference in read} for name, read in self._references.items()}
        ordered = in_order(named, list(self._topics))
        for topic in topics:
            self._schemas[topic.name] = topic_schema(topic)
        for name in ordered:
            self._plan(name, views[name])
        self.flow = laid_out(self.catalyst, optimized(self._planner.builder.flow), functions, VERSION)
        self._frames: dict[int, list[DataFrame]] = {}

    @property
    def topics(self) -> list[str]:
        """The topics that views read."""
        return sorted({source.topic for source in self.flow.sources.values() if source.topic})

    @cached_property
    def time_sources(self) -> list[str]:
        """The time sources that views name."""
        return sorted({call.source for view in self.views.values() for call in time_calls(view.sql)})

    @property
    def topics_by_name(self) -> Mapping[str, Topic]:
        """All topics that views may read."""
        return self._topics

    @property
    def tasks(self) -> int:
        return max(2, self.session.sparkContext.defaultParallelism)

    @property
    def definition(self) -> Definition:
        return Definition(
            VERSION,
            {name: DefinedView(view.sql, view.schema, tuple(view.reads)) for name, view in self.views.items()},
            {name: _defined(self._topics[name], self.late.get(name)) for name in self.topics},
            {function.name: function.fingerprint for function in self._functions},
            self._explanation,
        )

    @cached_property
    def _explanation(self) -> Explanation:
        # For readers that have no Spark to ask.
        return explain(self.flow, self.topics_by_name)

    @property
    def fingerprint(self) -> str:
        """Of what the views are and of what is kept for them: state of the same fingerprint can be resumed."""
        kept = [self.definition.meaning, *(f"{one.name} {one.layout}" for one in self.flow.operators.values())]
        return hashlib.sha256(json.dumps(kept).encode()).hexdigest()

    def part(self, names: Collection[str]) -> Program:
        """The operators whose state is called so, and those below them, as a program of the same definition."""
        made = copy(self)
        made.flow = self.flow.below([one.number for one in self.flow.operators.values() if one.name in names])
        made._frames = {}  # noqa: SLF001
        return made

    def run(self, batch: Batch) -> list[StageNote]:
        """Runs a batch; what its stages have written. Nothing has happened until that is committed."""
        frames = self._frames.get(batch.tasks)
        if frames is None:
            frames = self._frames[batch.tasks] = Template(self.catalyst, self.flow).build(batch.tasks)
        notes: list[StageNote] = []
        for frame in frames:
            found = [StageNote.from_json(json.loads(text)) for text in self._collected(frame, batch)]
            batch = replace(batch, files=[note.file for note in found if note.file])
            notes += found
        places = [(note.level, note.task) for note in notes]
        if len(set(places)) != len(places):
            raise InternalError("A stage of this batch ran more than once.")
        return notes

    def check(self, name: str, sql: str) -> None:
        """Plans another view, which is not going to be run. Raises `InvalidQuery` and `UnsupportedQuery`."""
        self._references[name] = references_of(self.catalyst, name, sql)
        self._plan(name, sql)

    def try_out(self, log: tuple[str, str]) -> None:
        """Runs a batch without records, and keeps nothing of it. Raises what is wrong."""
        with tempfile.TemporaryDirectory(prefix="headwater-") as directory:
            self.run(Batch(1, log, "0", "0", first=True, tasks=1, blobs=directory, runs={}))

    def _collected(self, frame: DataFrame, batch: Batch) -> list[str]:
        try:
            # Executors come and go, and with them the number of tasks.
            self.session.conf.set("spark.sql.shuffle.partitions", str(batch.tasks))
            self.session.sparkContext.setLocalProperty(BATCH, json.dumps(batch.to_json()))
            # With one task nothing is exchanged, so what Spark has planned once can run again. An exchange would give
            # what it held before.
            again = frame if batch.tasks == 1 else frame.select("*")
            return [row[0] for row in again.collect()]
        except PySparkException as error:
            owners = self._owners()
            failure = view_failure(error, {name: view.sql for name, view in self.views.items()}, owners)
            labels = {operator.number: label(operator) for operator in self.flow.operators.values()}
            raise failure or broken_invariant(error, labels, owners) or unexpected(error) from error
        except Py4JJavaError as error:
            raise breakdown(error) from error
        except (ConnectionError, Py4JError) as error:
            raise spark_stopped(error) from error

    def _owners(self) -> dict[int, str]:
        """The first view that an operator was planned for."""
        owners: dict[int, str] = {}
        for view in self.views.values():
            for number in view.operators:
                owners.setdefault(number, view.name)
        return owners

    def _register(self, name: str) -> None:
        """A name that SQL can use, as a relation without rows."""
        self._empty(Reference(name), self._schemas[name]).createOrReplaceTempView(f"`{name}`")

    def _empty(self, reference: Reference, schema: StructType) -> DataFrame:
        """A relation without rows that stands for what is read."""
        nullable = StructType([StructField(field.name, field.dataType) for field in schema.fields])
        frame = self.catalyst.relation(nullable)
        self._leaves[self.catalyst.relation_number(frame)] = reference
        return frame

    def _history(self, view: str, sql: str) -> list[Reference]:
        """The topics that a query reads with their system columns, as changes or as versions."""
        topics = {name.lower(): name for name in self._topics}
        with_system = names_system_columns(sql)
        found = set()
        for reference in self._references[view]:
            name = topics.get(reference.name.lower())
            if name is not None:
                known = replace(reference, name=name)
                check_history(view, self._topics[name], known, self.late.get(name))
                if with_system or reference.reading != "rows":
                    found.add(known)
            elif reference.reading != "rows":
                what = "is a view, not a topic" if reference.name in self.views else "is not a topic"
                raise InvalidQuery(view, f"{reference.reading}({reference.name!r}): {reference.name!r} {what}.")
        return sorted(found, key=lambda reference: (reference.name, reference.reading))

    def _plan(self, name: str, sql: str) -> None:
        """Plans a view by its SQL and by what it reads alone, whatever was planned before it."""
        with numbered_alike(self.catalyst):
            reads = self._reads(name)
            for read in reads:
                self._register(read)
            self._plan_over(name, sql, reads)

    def _plan_over(self, name: str, sql: str, reads: Sequence[str]) -> None:
        builder = self._planner.builder
        operators, edges = len(builder.flow.operators), len(builder.flow.edges)
        history = self._history(name, sql)
        rows = {
            reference.folded: self._empty(reference, history_schema(self._topics[reference.name], reference))
            for reference in history
        }
        try:
            timed = self._timed(sql)
            plan = settled(self.catalyst, timed, analyze(self.catalyst, timed, rows))
            names = _names(name, self.catalyst.output(plan.plan))
            relation = self._planner.relation(read(self.catalyst, self.catalyst.optimize(plan.plan)))
            types = [attribute.type for attribute in relation.output]
            schema = pa.schema([(column, arrow_type(given)) for column, given in zip(names, types, strict=True)])
            self._planner.publish(name, relation, schema)
            self._planner.check_subqueries(builder.flow.edges[edges:])
        except UnsupportedQuery as error:
            raise in_view(name, error) from error
        except PySparkException as error:
            raise query_failure(name, sql, error) from error
        except (ConnectionError, Py4JNetworkError) as error:
            raise spark_stopped(error) from error
        except Py4JError as error:
            raise self._breakdown(name, sql, rows, error) from error
        made = list(builder.flow.operators)[operators:]
        self.views[name] = PlannedView(name, sql, schema, plan.rules, made, reads, history)
        self._relations[Reference(name)] = relation
        self._schemas[name] = StructType([StructField(c, t) for c, t in zip(names, types, strict=True)])

    def _timed(self, sql: str) -> str:
        """The query with relations in the place of time sources, which are known by then. Raises `UnsupportedQuery`."""
        for source in dict.fromkeys(call.source for call in time_calls(sql)):
            frame = self.catalyst.relation(StructType([StructField(COLUMN, TimestampType())]))
            self._times[self.catalyst.relation_number(frame)] = source
            frame.createOrReplaceTempView(f"`{relation_of(source)}`")
        return with_relations(sql)

    def _reads(self, name: str) -> list[str]:
        """The topics and views that a query names."""
        named = {reference.name.lower() for reference in self._references[name]}
        return [known for known in (*self._topics, *self.views) if known.lower() in named]

    def _breakdown(self, name: str, sql: str, rows: Mapping[Reference, DataFrame], error: Py4JError) -> HeadwaterError:
        """What to say when planning breaks down: if Spark's own does so, too, the SQL has to change."""
        try:
            self.catalyst.optimize(analyze(self.catalyst, with_relations(sql), rows))
        except Py4JJavaError as own:
            return spark_fails(name, own)
        return InternalError(f"View {name!r} cannot be planned: {str(error).splitlines()[0]}")

    def _leaf(self, scan: plans.Scan) -> Relation:
        reference = self._leaves[scan.relation]
        if reference not in self._relations:
            topic, late = self._topics[reference.name], self.late.get(reference.name)
            self._relations[reference] = self._planner.topics.relation(topic, reference, late)
        return as_read(self._relations[reference], scan.output).known_as(scan.output, self.catalyst.alias)


def _defined(topic: Topic, late: LateRule | None) -> DefinedTopic:
    rule = () if late is None else late.to_json()
    return DefinedTopic(format_ddl(topic.schema), topic.key, topic.settings.views, rule)


def _names(view: str, output: Sequence[Expression]) -> list[str]:
    names = [attribute.name for attribute in output]
    folded = [name.lower() for name in names]
    for name in names:
        if folded.count(name.lower()) > 1:
            raise InvalidQuery(view, f"Two columns are named {name!r}: rename one of them with AS.")
        if name in (HASH, WEIGHT):
            raise InvalidQuery(view, f"A column cannot be named {name!r}: rename it with AS.")
    return names
