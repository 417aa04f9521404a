"""The projection between two stages: rows of producers in, rows for the ports of operators out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headwater.spark.catalyst import Catalyst, Expression
from headwater.spark.flow import Edge, Expand, Filter, Generate, LinearStep, Project
from headwater.spark.slots import NOTES, PACKED, PARCELS, ROUTE, TASK, WEIGHT, Slots

EDGE = "_edge"


def project(
    catalyst: Catalyst,
    rows: DataFrame,
    edges: Sequence[Edge],
    produced: Mapping[int, Sequence[str]],
    ports: Mapping[int, Sequence[str]],
    slots: Slots,
) -> DataFrame:
    """The rows of each edge, computed from those of its producer. Parcels and notes stay what they are."""
    projection = _Projection(catalyst, _on_edges(rows, edges), slots, edges)
    projection.bind(edges, produced)
    for depth in range(max((len(edge.branch.steps) for edge in edges), default=0)):
        projection.take([(edge, edge.branch.steps[depth]) for edge in edges if depth < len(edge.branch.steps)])
    return projection.finish(edges, ports)


def _on_edges(rows: DataFrame, edges: Sequence[Edge]) -> DataFrame:
    """Every row once per edge that begins at its producer."""
    by_producer: dict[int, list[int]] = {}
    for edge in edges:
        by_producer.setdefault(edge.branch.producer, []).append(edge.number)
    # Where every producer has one edge, no row has to be repeated.
    single = all(len(numbers) == 1 for numbers in by_producer.values())
    listed = (lambda *numbers: numbers[0]) if single else F.array
    route = F.col(ROUTE)
    others = F.when((route >= PARCELS) | (route == NOTES), listed(route))
    for producer, numbers in by_producer.items():
        others = others.when(route == producer, listed(*(F.lit(number) for number in numbers)))
    rest = [name for name in rows.columns if name != ROUTE]
    if single:
        return rows.select(others.alias(EDGE), *rest).where(F.col(EDGE).isNotNull())
    return rows.select(F.explode(others).alias(EDGE), *rest)


class _Projection:
    """Takes the rows of all edges through their steps together, one step of each at a time.

    For each edge it knows which column has the value of which attribute now. Columns of different edges are different
    ones; Spark's optimizer puts all of it together again.
    """

    def __init__(self, catalyst: Catalyst, rows: DataFrame, slots: Slots, edges: Sequence[Edge]) -> None:
        self._catalyst, self._rows, self._slots = catalyst, rows, slots
        self._values: dict[int, dict[int, tuple[Expression, Expression]]] = {edge.number: {} for edge in edges}
        self._substitutions: dict[int, Callable[[Expression], Expression]] = {}
        self._on_edge = {edge.number: F.col(EDGE) == edge.number for edge in edges}
        self._count = 0

    def bind(self, edges: Sequence[Edge], produced: Mapping[int, Sequence[str]]) -> None:
        """The attributes that an edge's expressions know are in its producer's slots."""
        columns = self._columns()
        for edge in edges:
            for slot, attribute in zip(produced[edge.branch.producer], edge.branch.binding, strict=False):
                if attribute is not None:
                    self._values[edge.number][attribute.identity] = (attribute, columns[slot])

    def take(self, steps: Sequence[tuple[Edge, LinearStep]]) -> None:
        """One step of each edge."""
        filters = {edge.number: self._now(edge, step.condition) for edge, step in steps if isinstance(step, Filter)}
        if filters:
            self._rows = self._rows.where(self._case(filters, F.lit(True)))
        for edge, step in steps:
            if isinstance(step, Expand):
                self._expand(edge, step)
            elif isinstance(step, Generate):
                self._generate(edge, step)
        self._project([(edge, step) for edge, step in steps if isinstance(step, Project)])

    def finish(self, edges: Sequence[Edge], ports: Mapping[int, Sequence[str]]) -> DataFrame:
        """The columns of each port go into its slots."""
        values: dict[str, dict[int, Column]] = {slot: {} for slot in self._slots.types}
        for edge in edges:
            for slot, expression in zip(ports[edge.number], edge.columns, strict=True):
                # Not cast, although lists in it may say that they hold no nulls: a cast takes the place in the SQL away
                # from what it is applied to, and with it from errors.
                values[slot][edge.number] = self._now(edge, expression)
        selected = [F.col(EDGE).alias(ROUTE), F.col(TASK), F.col(WEIGHT), F.col(PACKED)]
        for slot, given in self._slots.types.items():
            selected.append(self._case(values[slot], F.lit(None).cast(given)).alias(slot))
        return self._rows.select(*selected)

    def _project(self, steps: Sequence[tuple[Edge, Project]]) -> None:
        made: dict[str, Column] = {}
        targets: list[tuple[int, Expression, str | Expression]] = []
        for edge, step in steps:
            for column in step.columns:
                if not column.is_alias:
                    continue
                value = self._substituted(edge, column.child)
                if value.is_attribute:
                    targets.append((edge.number, column.attribute, value))
                else:
                    value = self._only_mine(edge, value)
                    name = self._name()
                    made[name] = self._guarded(edge, self._catalyst.column(value)).alias(name)
                    targets.append((edge.number, column.attribute, name))
        if made:
            self._rows = self._rows.select("*", *made.values())
        columns = self._columns() if made else {}
        for number, attribute, found in targets:
            self._set(number, attribute, columns[found] if isinstance(found, str) else found)

    def _expand(self, edge: Edge, step: Expand) -> None:
        rows = [
            F.struct(*(self._now(edge, expression).alias(f"f{number}") for number, expression in enumerate(row)))
            for row in step.rows
        ]
        name = self._name()
        self._rows = self._rows.select("*", F.explode_outer(self._guarded(edge, F.array(*rows))).alias(name))
        parts = {self._name(): F.col(name).getField(f"f{number}") for number in range(len(step.outputs))}
        self._rows = self._rows.select("*", *(part.alias(made) for made, part in parts.items()))
        self._set_all(edge, step.outputs, list(parts))

    def _generate(self, edge: Edge, step: Generate) -> None:
        name, below = step.generator.kind, step.generator.children
        made = [self._name() for _ in step.outputs]
        if name in _GENERATORS:
            given = self._now(edge, below[0])
            if name == "ReplicateRows":
                values = [
                    self._now(edge, expression).alias(one) for expression, one in zip(below[1:], made, strict=True)
                ]
                given = F.array_repeat(F.struct(*values), given.cast("int"))
            if not step.outer:
                self._rows = self._rows.where(self._case({edge.number: F.size(given) > 0}, F.lit(True)))
            generated = _GENERATORS[name](self._guarded(edge, given))
        elif name == "Stack":
            values = [self._now(edge, expression) for expression in below[1:]]
            generated = F.inline_outer(self._guarded(edge, _stacked(int(str(below[0].value)), values, made)))
        else:
            # JsonTuple: one row for each, whose columns are null if the text is.
            text = self._catalyst.expression(self._guarded(edge, self._now(edge, below[0])))
            names = [self._substituted(edge, expression) for expression in below[1:]]
            generated = self._catalyst.column(self._catalyst.with_children(step.generator, [text, *names]))
        self._rows = self._rows.select("*", generated.alias(*made))
        self._set_all(edge, step.outputs, made)

    def _only_mine(self, edge: Edge, value: Expression) -> Expression:
        """A function in Python is called for all rows, whatever stands around it: it is told which ones are its own."""
        if value.kind != "PythonUDF":
            return value
        mine = self._catalyst.equal(self._columns()[EDGE], self._catalyst.expression(F.lit(edge.number)))
        arguments = [self._catalyst.only_if(mine, self._only_mine(edge, argument)) for argument in value.children]
        return self._catalyst.with_arguments(value, [*arguments, mine])

    def _now(self, edge: Edge, expression: Expression) -> Column:
        """An expression over the columns as they are now."""
        return self._catalyst.column(self._substituted(edge, expression))

    def _substituted(self, edge: Edge, expression: Expression) -> Expression:
        known = self._substitutions.get(edge.number)
        if known is None:
            known = self._substitutions[edge.number] = self._catalyst.substitution(self._values[edge.number])
        return known(expression)

    def _set(self, edge: int, attribute: Expression, value: Expression) -> None:
        self._values[edge][attribute.identity] = (attribute, value)
        self._substitutions.pop(edge, None)

    def _set_all(self, edge: Edge, attributes: Sequence[Expression], names: Sequence[str]) -> None:
        columns = self._columns()
        for attribute, name in zip(attributes, names, strict=True):
            self._set(edge.number, attribute, columns[name])

    def _columns(self) -> dict[str, Expression]:
        return {attribute.name: attribute for attribute in self._catalyst.output(self._catalyst.analyzed(self._rows))}

    def _name(self) -> str:
        self._count += 1
        return f"_v{self._count}"

    def _guarded(self, edge: Edge, value: Column) -> Column:
        return F.when(self._on_edge[edge.number], value)

    def _case(self, by_edge: Mapping[int, Column], otherwise: Column) -> Column:
        """The value of the row's edge."""
        case: Column | None = None
        for edge, value in by_edge.items():
            condition = self._on_edge[edge]
            case = F.when(condition, value) if case is None else case.when(condition, value)
        return otherwise if case is None else case.otherwise(otherwise)


def _stacked(rows: int, values: Sequence[Column], names: Sequence[str]) -> Column:
    width = len(names)
    padded = [*values, *(F.lit(None) for _ in range(rows * width - len(values)))]
    structs = [
        F.struct(*(padded[row * width + number].alias(name) for number, name in enumerate(names)))
        for row in range(rows)
    ]
    return F.array(*structs)


_GENERATORS: Mapping[str, Callable[[Column], Column]] = {
    "Explode": F.explode_outer,
    "PosExplode": F.posexplode_outer,
    "Inline": F.inline_outer,
    "ReplicateRows": F.inline_outer,
}
GENERATORS = frozenset({*_GENERATORS, "Stack", "JsonTuple"})
"""The generators that can stand on an edge, by their class."""
