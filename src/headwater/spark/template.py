"""The template of a pipeline: one DataFrame that every batch executes again.

Stages of Python, one per level, alternate with projections by Spark. A projection computes every scalar expression of
every edge at once: each in a branch of a CASE on the number of the edge, so that no row meets an expression that is not
meant for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from headwater.spark.catalyst import Catalyst, analyzed, data_type, identity, items
from headwater.spark.flow import Edge, Flow, Native, Operator
from headwater.spark.projection import project
from headwater.spark.slots import HASH, NOTE, NOTES, ROUTE, WEIGHT, Slots
from headwater.spark.stage import FileStage, LevelStage, ReadStage, StageOperator, StagePort, StageSource
from headwater.views.aggregate import Aggregate

TASK = "_task"


class Template:
    """Builds the DataFrame of a flow, for a number of tasks: with one, there is no exchange between stages."""

    def __init__(self, catalyst: Catalyst, flow: Flow) -> None:
        self._catalyst, self._flow = catalyst, flow
        self._slots = Slots()
        self._produced: dict[int, tuple[str, ...]] = {}
        for source in flow.sources.values():
            self._produced[source.number] = self._slots.place(source.types)
        for operator in flow.operators.values():
            native = operator.native
            self._produced[native.rows if native else operator.number] = self._slots.place(operator.types)
            if native:
                self._produced[operator.number] = self._slots.place(native.types)
        self._ports: dict[int, tuple[str, ...]] = {}
        for edge in flow.projected:
            columns = self._slots.place([data_type(column) for column in edge.columns])
            self._ports[edge.number] = columns + self._slots.place_measures(len(edge.measures))

    def build(self, tasks: int) -> list[DataFrame]:
        """The DataFrames of a batch, one job each, to be run one after the other; their rows are notes of stages.

        A job ends with a level that has rows for nodes of Spark's own: its stage would run once for each reader, so it
        puts its rows into files, and the next job reads them as often as it likes.
        """
        schema = self._slots.arrow
        read = ReadStage(tuple(self._source(number) for number in self._flow.sources), schema)
        rows = self._begin(read, tasks)
        frames = []
        for level in range(1, self._flow.levels + 1):
            rows = self._projected(rows, level)
            summed = tasks > 1 and self._is_measured(level)
            if summed:
                rows = self._summed(rows, level)
            elif tasks > 1:
                rows = rows.withColumn(TASK, _task_of(tasks)).repartitionById(tasks, F.col(TASK)).drop(TASK)
            operators = [operator for operator in self._flow.operators.values() if operator.level == level]
            natives = [operator for operator in operators if operator.native is not None]
            stage = LevelStage(
                level,
                tuple(self._operator(operator) for operator in operators),
                schema,
                into_files=bool(natives),
                by_range=not summed,
            )
            rows = rows.mapInArrow(stage, self._slots.spark)
            if natives:
                frames.append(rows.select(NOTE))
                rows = self._with_natives(natives, tasks)
        return [*frames, rows.where(F.col(ROUTE) == NOTES).select(NOTE)]

    def _begin(self, stage: ReadStage | FileStage, tasks: int) -> DataFrame:
        return self._catalyst.session.range(0, tasks, 1, tasks).mapInArrow(stage, self._slots.spark)

    def _source(self, number: int) -> StageSource:
        source = self._flow.sources[number]
        return StageSource(
            number, source.topic, source.constant, tuple(source.columns), self._produced[number], source.sums
        )

    def _operator(self, operator: Operator) -> StageOperator:
        native = operator.native
        route = native.rows if native else operator.number
        shown = [edge for edge in self._flow.edges if edge.operator == operator.number and edge.shown is not None]
        edges = [edge for edge in self._flow.projected if edge.operator == operator.number]
        ports = []
        for name in operator.kernel.ports:
            numbers = frozenset(edge.number for edge in edges if edge.port == name)
            ports.append(StagePort(name, numbers, self._ports[min(numbers)] if numbers else ()))
        empty, empty_slots = (native.empty, self._produced[operator.number]) if native else (None, ())
        return StageOperator(
            operator.number,
            operator.name,
            operator.kernel,
            tuple(ports),
            self._produced[route],
            route,
            operator.view is not None,
            empty,
            empty_slots,
            any(edge.branch.producer == operator.number for edge in self._flow.projected),
            shown[0].branch.producer if shown else None,
            shown[0].shown or () if shown else (),
        )

    def _projected(self, rows: DataFrame, level: int) -> DataFrame:
        """Rows of producers become rows of edges."""
        edges = [edge for edge in self._flow.projected if self._flow.level(edge.branch.producer) == level - 1]
        passing = any(
            self._flow.level(edge.branch.producer) < level - 1 and self._flow.operators[edge.operator].level >= level
            for edge in self._flow.projected
        )
        return project(self._catalyst, rows, edges, self._produced, self._ports, self._slots, passing=passing)

    def _is_measured(self, level: int) -> bool:
        """Whether all rows that reach a level are for aggregates whose measures add up."""
        edges = self._reaching(level)
        kernels = [self._flow.operators[edge.operator].kernel for edge in edges]
        return all(isinstance(kernel, Aggregate) and kernel.measured for kernel in kernels) and not any(
            "map<" in self._slots.types[slot].simpleString() for edge in edges for slot in self._ports[edge.number]
        )

    def _reaching(self, level: int) -> list[Edge]:
        """The edges whose rows go into the stage of a level, or through it."""
        return [
            edge
            for edge in self._flow.projected
            if self._flow.level(edge.branch.producer) < level <= self._flow.operators[edge.operator].level
        ]

    def _summed(self, rows: DataFrame, level: int) -> DataFrame:
        """Lets Spark add rows up, in each task and then in all: a sum of changes is a change."""
        measures = self._slots.measures
        used = {slot for edge in self._reaching(level) for slot in self._ports[edge.number]}
        keys = [ROUTE, HASH, NOTE, *(name for name in self._slots.types if name in used and name not in measures)]
        # Rows of a key are shared among tasks by all of these columns, so all edges of a port go by one number.
        routed = rows.withColumn(ROUTE, self._one_route_per_port(level))
        summed = routed.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in (WEIGHT, *measures)))
        kept = {*keys, WEIGHT, *measures}
        return summed.select(
            *(name if name in kept else F.lit(None).cast(given).alias(name) for name, given in _types(self._slots))
        )

    def _one_route_per_port(self, level: int) -> Column:
        ports: dict[tuple[int, str], list[int]] = {}
        for edge in self._reaching(level):
            ports.setdefault((edge.operator, edge.port), []).append(edge.number)
        route = F.col(ROUTE)
        for numbers in ports.values():
            if len(numbers) > 1:
                route = F.when(F.col(ROUTE).isin(numbers), F.lit(min(numbers))).otherwise(route)
        return route.cast("int")

    def _with_natives(self, operators: Sequence[Operator], tasks: int) -> DataFrame:
        """The rows of a job before, those of touched groups sent through Spark's own nodes."""
        schema = self._slots.arrow
        natives = {operator.number: operator.native for operator in operators if operator.native}
        routes = frozenset(native.rows for native in natives.values())
        parts = [self._begin(FileStage(routes, schema, others=True), tasks)]
        for number, native in natives.items():
            mine = self._begin(FileStage(frozenset({native.rows}), schema), tasks)
            parts.append(self._native(mine, number, native))
        united = reduce(DataFrame.unionAll, parts)
        return united if tasks > 1 else united.coalesce(1)

    def _native(self, mine: DataFrame, number: int, native: Native) -> DataFrame:
        catalyst = self._catalyst
        columns = {str(attribute.name()): attribute for attribute in items(analyzed(mine).output())}
        slots = zip(native.inputs, self._produced[native.rows], strict=False)
        now = catalyst.substitution({identity(one): (one, columns[slot]) for one, slot in slots})
        node = native.build(analyzed(mine), columns[WEIGHT], now)
        *results, tag = items(node.output())
        placed = dict(zip(self._produced[number], results, strict=True))
        selected = [
            F.lit(number).cast("int").alias(ROUTE),
            F.lit(0).cast("long").alias(HASH),
            catalyst.column(tag).alias(WEIGHT),
            F.lit(None).cast("string").alias(NOTE),
        ]
        for slot, given in self._slots.types.items():
            value = catalyst.column(placed[slot]) if slot in placed else F.lit(None)
            selected.append(value.cast(given).alias(slot))
        return catalyst.frame(node).select(*selected)


def _types(slots: Slots) -> list[tuple[str, DataType]]:
    return [(field.name, field.dataType) for field in slots.spark.fields]


def _task_of(tasks: int) -> Column:
    """The task that owns a hash: hashes are cut into as many ranges as there are tasks."""
    return F.shiftright((F.shiftright(F.col(HASH), 32) + F.lit(1 << 31)) * F.lit(tasks), 32).cast("int")
