"""The template of a pipeline: DataFrames that every batch executes again.

Stages of Python alternate with projections by Spark, where there is something to compute. A projection computes every
scalar expression of every edge at once: each in a branch of a CASE on the number of the edge, so that no row meets an
expression that is not meant for it. With one task, levels between which nothing is computed share a stage; with more,
rows are exchanged before every level.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headwater.spark.catalyst import Catalyst
from headwater.spark.flow import Edge, Flow, Native, Operator
from headwater.spark.parcels import Route
from headwater.spark.projection import project
from headwater.spark.records import StageSource
from headwater.spark.slots import NOTES, PACKED, ROUTE, TASK, WEIGHT, Slots
from headwater.spark.stage import FileStage, Level, Stage, StageOperator
from headwater.views.zset import empty


class Template:
    """Builds the DataFrames of a flow, for a number of tasks."""

    def __init__(self, catalyst: Catalyst, flow: Flow) -> None:
        self._catalyst, self._flow = catalyst, flow
        self._slots = Slots()
        self._produced: dict[int, tuple[str, ...]] = {}
        read_by_spark = {edge.branch.producer for edge in flow.projected}
        for source in flow.sources.values():
            if source.number in read_by_spark:
                self._produced[source.number] = self._slots.place(source.types)
        for operator in flow.operators.values():
            if operator.native:
                for number, columns in (
                    (operator.native.rows, operator.native.inputs),
                    (operator.native.results, operator.native.outputs),
                ):
                    self._produced[number] = self._slots.place([column.type for column in columns])
            if operator.number in read_by_spark:
                self._produced[operator.number] = self._slots.place(operator.types)
        self._ports = {
            edge.number: self._slots.place([column.type for column in edge.columns]) for edge in flow.projected
        }
        self._nulls = {slot: F.lit(None).cast(given).alias(slot) for slot, given in self._slots.types.items()}
        self._unpacked = (
            F.lit(0).cast("int").alias(TASK),
            F.lit(1).cast("long").alias(WEIGHT),
            F.lit(None).cast("binary").alias(PACKED),
        )
        self._routes = {edge.number: self._route(edge) for edge in flow.edges if not edge.stays}
        self._onward: dict[int, tuple[int, ...]] = {}
        for edge in flow.edges:
            if edge.choice is not None and not edge.stays:
                self._onward[edge.branch.producer] = (*self._onward.get(edge.branch.producer, ()), edge.number)

    def build(self, tasks: int) -> list[DataFrame]:
        """The DataFrames of a batch, one job each, to be run one after the other; their rows are notes of stages.

        A job ends with a level that has rows for nodes of Spark's own: its stage would run once for each reader, so it
        puts its rows into files, and the next job reads them as often as it likes.
        """
        rows = self._catalyst.session.range(0, tasks, 1, tasks)
        frames: list[DataFrame] = []
        sources: tuple[StageSource, ...] | None = self._sources()
        levels: list[Level] = []
        for number in range(1, self._flow.levels + 1):
            edges = [edge for edge in self._flow.projected if self._flow.level(edge.branch.producer) == number - 1]
            if edges or tasks > 1:
                rows, sources, levels = self._staged(rows, sources, levels), None, []
                rows = self._exchanged(rows, edges, tasks)
            operators = [operator for operator in self._flow.operators.values() if operator.level == number]
            levels.append(Level(number, tuple(map(self._operator, operators))))
            natives = [operator for operator in operators if operator.native is not None]
            if natives:
                frames.append(self._staged(rows, sources, levels, into_file=True).select(PACKED))
                rows, sources, levels = self._with_natives(natives, tasks), None, []
        return [*frames, self._staged(rows, sources, levels).where(F.col(ROUTE) == NOTES).select(PACKED)]

    def _staged(
        self,
        rows: DataFrame,
        sources: tuple[StageSource, ...] | None,
        levels: Sequence[Level],
        *,
        into_file: bool = False,
    ) -> DataFrame:
        """What a stage gives that reads these sources, or is handed the rows, and runs these levels."""
        if sources is None and not levels:
            return rows
        stage = Stage(
            sources, tuple(levels), self._routes, self._onward, self._produced, self._slots.arrow, into_file=into_file
        )
        return rows.mapInArrow(stage, self._slots.spark)

    def _exchanged(self, rows: DataFrame, edges: Sequence[Edge], tasks: int) -> DataFrame:
        """Rows of producers become rows of edges, in the tasks that own them."""
        if edges:
            rows = project(self._catalyst, rows, edges, self._produced, self._ports, self._slots)
        if tasks == 1:
            return rows
        if edges:
            packing = Stage(None, (), self._routes, self._onward, self._produced, self._slots.arrow)
            rows = rows.mapInArrow(packing, self._slots.spark)
        return rows.repartitionById(tasks, F.col(TASK))

    def _sources(self) -> tuple[StageSource, ...]:
        return tuple(
            StageSource(source.number, source.topic, source.constant, tuple(source.columns), source.dropped)
            for source in self._flow.sources.values()
        )

    def _operator(self, operator: Operator) -> StageOperator:
        native = operator.native
        edges = [edge for edge in self._flow.edges if edge.operator == operator.number]
        stays = next((edge for edge in edges if edge.stays), None)
        return StageOperator(
            operator.number,
            operator.name,
            operator.kernel,
            {port: tuple(edge.number for edge in edges if edge.port == port) for port in operator.kernel.ports},
            native.rows if native else None,
            operator.view is not None,
            stays.branch.producer if stays else None,
            stays.choice.places if stays and stays.choice else (),
            stays is not None and stays.once,
        )

    def _route(self, edge: Edge) -> Route:
        kernel = self._flow.operators[edge.operator].kernel
        choice = edge.choice
        return Route(
            edge.number,
            kernel.brought[edge.port],
            empty(kernel.ports[edge.port], hashed=True).schema,
            kernel.keys[edge.port],
            kernel.summation,
            choice.places if choice else None,
            choice.present if choice else (),
            self._ports.get(edge.number, ()),
            kernel.in_buckets,
        )

    def _begin(self, stage: FileStage, tasks: int) -> DataFrame:
        return self._catalyst.session.range(0, tasks, 1, tasks).mapInArrow(stage, self._slots.spark)

    def _with_natives(self, operators: Sequence[Operator], tasks: int) -> DataFrame:
        """The rows of a job before, those of touched groups sent through Spark's own nodes."""
        schema = self._slots.arrow
        natives = [operator.native for operator in operators if operator.native]
        routes = frozenset(native.rows for native in natives)
        parts = [self._begin(FileStage(routes, schema, others=True), tasks)]
        for native in natives:
            mine = self._begin(FileStage(frozenset({native.rows}), schema), tasks)
            parts.append(self._native(mine, native, tasks))
        united = reduce(DataFrame.unionAll, parts)
        return united if tasks > 1 else united.coalesce(1)

    def _native(self, mine: DataFrame, native: Native, tasks: int) -> DataFrame:
        catalyst = self._catalyst
        below = catalyst.analyzed(mine)
        columns = {attribute.name: attribute for attribute in catalyst.output(below)}
        slots = zip(native.inputs, self._produced[native.rows], strict=True)
        now = catalyst.substitution({one.identity: (one, columns[slot]) for one, slot in slots})
        node = native.build(below, now, tasks)
        placed = dict(zip(self._produced[native.results], catalyst.output(node), strict=True))
        selected = [F.lit(native.results).cast("int").alias(ROUTE), *self._unpacked]
        for slot, given in self._slots.types.items():
            selected.append(
                catalyst.column(placed[slot]).cast(given).alias(slot) if slot in placed else self._nulls[slot]
            )
        return catalyst.frame(node).select(*selected)
