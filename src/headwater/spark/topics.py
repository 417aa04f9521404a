"""Topics as relations: the rows of a topic, its changes, versions and late records, all with their system columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    _parse_datatype_string,
)

from headwater.engine.lateness import LATE_BY, REASON, WATERMARK, LateRule
from headwater.errors import InvalidQuery, UnsupportedQuery
from headwater.log.topic import Topic
from headwater.model.ddl import format_ddl
from headwater.model.record import SQL_COLUMNS
from headwater.spark.builder import FlowBuilder, Input, arrow_type
from headwater.spark.catalyst import Expression
from headwater.spark.catalyst.history import Reading, Reference
from headwater.spark.flow import Branch, Project, Relation
from headwater.views.kernel import KeyedKernel
from headwater.views.operations import INSERT, OPERATION, Operations
from headwater.views.upsert import Upsert
from headwater.views.versions import VALID_FROM, VALID_TO, Versions

RECEIVED_AT, COMMIT, _, OFFSET, _ = SQL_COLUMNS
DELETED = "_deleted"
_SYSTEM: Mapping[str, DataType] = dict(
    zip(
        SQL_COLUMNS,
        (TimestampType(), LongType(), IntegerType(), LongType(), MapType(StringType(), StringType())),
        strict=True,
    )
)
_ADDED: Mapping[Reading, Mapping[str, DataType]] = {
    "rows": {},
    "changes": {OPERATION: StringType()},
    "versions": {VALID_FROM: TimestampType(), VALID_TO: TimestampType()},
    "late": {WATERMARK: TimestampType(), LATE_BY: DoubleType(), REASON: StringType()},
}


def topic_schema(topic: Topic) -> StructType:
    """The columns of a topic, for Spark."""
    schema = _parse_datatype_string(format_ddl(topic.schema))
    assert isinstance(schema, StructType)
    return schema


def record_schema(topic: Topic, *, judged: bool = False) -> StructType:
    """The columns of a topic's records: its own, the system columns, and whether one is a tombstone.

    Those that were `judged` have how late they were as well.
    """
    schema = _with(_with(topic_schema(topic), _SYSTEM), {DELETED: BooleanType()})
    return _with(schema, _ADDED["late"]) if judged else schema


def history_schema(topic: Topic, reference: Reference) -> StructType:
    """The columns of a topic as a query reads it: its own, what the reading adds, and then the system columns."""
    return _with(_with(topic_schema(topic), _ADDED[reference.reading]), _SYSTEM)


def check_history(view: str, topic: Topic, reference: Reference, late: LateRule | None) -> None:
    """Raises `UnsupportedQuery` or `InvalidQuery` if a topic cannot be read in this way."""
    reading = reference.reading
    if reading == "rows":
        return
    if reading == "late" and late is None:
        raise UnsupportedQuery(
            f"late({topic.name!r})",
            "no late record of the topic is dropped: they all correct results",
            hint=f"Declare it: app.topic({topic.name!r}, ..., watermark='10 seconds', late='drop').",
            view=view,
        )
    if reading == "versions" and not topic.key:
        raise UnsupportedQuery(
            f"versions({topic.name!r})",
            "the topic has no key, so its records are no versions of a row",
            hint=f"Give the topic a key, or read its records: FROM {topic.name}.",
            view=view,
        )
    if topic.settings.cleanup == "compact":
        raise UnsupportedQuery(
            f"{reading}({topic.name!r})",
            "the topic is compacted, so older versions of its rows are gone",
            hint=f"Keep them: headwater log alter LOG {topic.name} --cleanup none.",
            view=view,
        )
    if topic.key and topic.history == "forget":
        raise UnsupportedQuery(
            f"{reading}({topic.name!r})",
            "retention deletes the older versions of its rows, and views forget them",
            hint=f"Keep them: headwater log alter LOG {topic.name} --archive URL, or --views keep.",
            view=view,
        )
    for name in topic.schema.names:
        if name.lower() in _ADDED[reading]:
            raise InvalidQuery(
                view,
                f"{reading}({topic.name!r}) adds a column {name.lower()!r}, which the topic already has.",
            )


class Topics:
    """Adds topics to a flow."""

    def __init__(self, builder: FlowBuilder) -> None:
        self._builder, self._catalyst = builder, builder.catalyst

    def relation(self, topic: Topic, reference: Reference, late: LateRule | None = None) -> Relation:
        """A topic, with the columns of `history_schema`: a stream's records, or what a table's records come to.

        By the rule `late`, records are dropped.
        """
        output = self._attributes(history_schema(topic, reference))
        own, added = self._split(output, topic)
        system = output[len(output) - len(SQL_COLUMNS) :]
        if reference.reading == "late":
            return self._records(topic, [*own, *added, *system], late, [*topic.schema.names, *_ADDED["late"]])
        if not topic.key:
            relation = self._records(topic, [*own, *system], late)
            if reference.reading == "rows":
                return relation
            literal = self._catalyst.text(INSERT)
            return relation.then(Project([self._catalyst.alias(literal, added[0])]), output=output)
        if reference.reading == "versions":
            return self._versions(topic, own, added, system)
        if reference.reading == "changes":
            return Relation(self._kernel("changes", topic, [*own, *system], Operations, added).branches, output)
        return self._kernel("table", topic, output, Upsert)

    def _records(
        self, topic: Topic, output: Sequence[Expression], late: LateRule | None, of_late: Sequence[str] = ()
    ) -> Relation:
        """The records of a stream that are on time, or with the columns `of_late` those that are dropped."""
        types = [attribute.type for attribute in output]
        columns = [*(of_late or topic.schema.names), *SQL_COLUMNS]
        source = self._builder.add_source(topic.name, None, columns, types, late=late, dropped=bool(of_late))
        return Relation((Branch(source.number, output),), output)

    def _versions(
        self, topic: Topic, own: Sequence[Expression], added: Sequence[Expression], system: Sequence[Expression]
    ) -> Relation:
        since, until = added
        place = SQL_COLUMNS.index(RECEIVED_AT)

        def kernel(schema: pa.Schema, key: tuple[str, ...]) -> Versions:
            return Versions(schema, key, schema.names[len(own) + place])

        versions = self._kernel("versions", topic, [*own, *system], kernel, [until])
        started = self._catalyst.alias(system[place], since)
        return versions.then(Project([started]), output=[*own, *added, *system])

    def _kernel(
        self,
        title: str,
        topic: Topic,
        columns: Sequence[Expression],
        kernel: Callable[[pa.Schema, tuple[str, ...]], KeyedKernel],
        added: Sequence[Expression] = (),
    ) -> Relation:
        """What a kernel makes of a topic's records: these columns, and those that it adds."""
        (deleted,) = self._attributes(_with(StructType([]), {DELETED: BooleanType()}))
        records = [*columns, deleted]
        types = [attribute.type for attribute in records]
        names = [*topic.schema.names, *SQL_COLUMNS, DELETED]
        source = self._builder.add_source(topic.name, None, names, types)
        # By name, so that state stays what it is when the topic gets another column.
        schema = pa.schema([(f"c_{name}", arrow_type(one.type)) for name, one in zip(names, columns, strict=False)])
        made = kernel(schema, tuple(schema.names[names.index(name)] for name in topic.key))
        order = [columns[names.index(COMMIT)], columns[names.index(OFFSET)], deleted]
        given = Input(Relation((Branch(source.number, records),), records), [*columns, *order])
        output = [*columns, *added]
        types = [attribute.type for attribute in output]
        detail = f"{topic.name} by {', '.join(topic.key)}"
        operator = self._builder.add(title, detail, made, {"records": given}, types)
        return Relation((Branch(operator.number, output),), output)

    def _split(self, output: Sequence[Expression], topic: Topic) -> tuple[Sequence[Expression], Sequence[Expression]]:
        """The columns of the topic, and those that the reading adds."""
        own = len(topic.schema)
        return output[:own], output[own : len(output) - len(SQL_COLUMNS)]

    def _attributes(self, schema: StructType) -> list[Expression]:
        return self._catalyst.output(self._catalyst.analyzed(self._catalyst.relation(schema)))


def as_read(relation: Relation, output: Sequence[Expression]) -> Relation:
    """The first columns of a relation, as these attributes."""
    if len(output) < len(relation.output) and all(
        branch.binding is relation.output and not branch.steps for branch in relation.branches
    ):
        binding = [*output, *[None] * (len(relation.output) - len(output))]
        return Relation(tuple(replace(branch, binding=binding) for branch in relation.branches), output)
    return Relation(relation.branches, relation.output[: len(output)])


def _with(schema: StructType, columns: Mapping[str, DataType]) -> StructType:
    return StructType([*schema.fields, *(StructField(name, given) for name, given in columns.items())])
