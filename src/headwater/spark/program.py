"""A program: an application's views, planned, and ready to run batch after batch in Spark."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from headwater.engine.batch import Batch, StageNote
from headwater.errors import InternalError
from headwater.log.topic import Topic
from headwater.model.ddl import format_ddl
from headwater.spark.catalyst import Catalyst, Node, analyzed, data_type, identity, items, kind
from headwater.spark.flow import Flow, Project, Relation
from headwater.spark.planner import Planner, arrow_type
from headwater.spark.stage import BATCH
from headwater.spark.template import Template


@dataclass(frozen=True, slots=True)
class PlannedView:
    """A view as it was planned: its SQL, its columns, and those of them by which it is looked up."""

    name: str
    sql: str
    schema: pa.Schema

    def to_json(self) -> dict[str, Any]:
        return {"sql": self.sql, "schema": base64.b64encode(self.schema.serialize().to_pybytes()).decode()}


class Program:
    """Plans views over topics, and runs batches of them."""

    def __init__(self, session: SparkSession, topics: Sequence[Topic], views: Mapping[str, str]) -> None:
        self.session = session.newSession()
        self._catalyst = Catalyst(self.session)
        self._leaves: dict[int, str] = {}
        self._relations: dict[str, Relation] = {}
        self._planner = Planner(self._catalyst, self._leaf)
        self._topics = {topic.name: topic for topic in topics}
        self.views: dict[str, PlannedView] = {}
        for topic in topics:
            schema = _parse_datatype_string(format_ddl(topic.schema))
            assert isinstance(schema, StructType)
            self._register(topic.name, schema)
        for name, sql in views.items():
            self._plan(name, sql)
        self._template = Template(self._catalyst, self.flow)
        self._frames: dict[int, list[DataFrame]] = {}

    @property
    def flow(self) -> Flow:
        return self._planner.flow

    def run(self, batch: Batch) -> list[StageNote]:
        """Runs a batch; what its stages have written. Nothing has happened until that is committed."""
        frames = self._frames.get(batch.tasks)
        if frames is None:
            frames = self._frames[batch.tasks] = self._template.build(batch.tasks)
        notes: list[StageNote] = []
        for frame in frames:
            self.session.sparkContext.setLocalProperty(BATCH, json.dumps(batch.to_json()))
            found = [StageNote.from_json(json.loads(row[0])) for row in frame.select("*").collect()]
            batch = replace(batch, files=[note.file for note in found if note.file])
            notes += found
        places = [(note.level, note.task) for note in notes]
        if len(set(places)) != len(places):
            raise InternalError("A stage of this batch ran more than once.")
        return notes

    def _register(self, name: str, schema: StructType) -> Node:
        """A name that SQL can use, as a relation without rows."""
        nullable = StructType([StructField(field.name, field.dataType) for field in schema.fields])
        frame = self.session.createDataFrame(self.session.sparkContext.emptyRDD(), nullable)
        frame.createOrReplaceTempView(name)
        plan = analyzed(frame)
        self._leaves[int(plan.rdd().id())] = name
        return plan

    def _plan(self, name: str, sql: str) -> None:
        plan = self._catalyst.analyze(sql)
        optimized = self._catalyst.optimize(plan)
        relation = self._planner.relation(optimized)
        names = [str(attribute.name()) for attribute in items(plan.output())]
        self._planner.publish(name, relation, relation.output)
        types = [data_type(attribute) for attribute in relation.output]
        schema = pa.schema([(column, arrow_type(given)) for column, given in zip(names, types, strict=True)])
        self.views[name] = PlannedView(name, sql, schema)
        self._relations[name] = relation
        self._register(name, StructType([StructField(c, t) for c, t in zip(names, types, strict=True)]))

    def _leaf(self, node: Node) -> Relation | None:
        if kind(node) != "LogicalRDD":
            return None
        name = self._leaves[int(node.rdd().id())]
        output = items(node.output())
        if name not in self._relations:
            self._relations[name] = self._planner.topic(self._topics[name], output)
        known = self._relations[name]
        if [identity(one) for one in known.output] == [identity(other) for other in output]:
            return known
        renamed = [self._catalyst.alias(old, new) for old, new in zip(known.output, output, strict=True)]
        return known.then(Project(renamed), output=output)
