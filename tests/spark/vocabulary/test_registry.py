"""Every function in the registry of the installed Spark is classified, as far as possible by what Spark says of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.errors import UnsupportedQuery
from headwater.spark.vocabulary import Kind, check, classify, classify_registered, tables
from headwater.spark.vocabulary.kinds import EXPRESSIONS, names
from headwater.spark.vocabulary.types import CONTAINERS, KEPT, REFUSED

GUARANTEES = Path(__file__).parents[3] / "docs" / "guarantees.md"

_EXAMPLE = re.compile(r"> (SELECT.*?);\s*\n", re.DOTALL)
# What this Spark cannot analyze in its own examples: packages and files that are not there.
_NOT_THERE = {"from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "measure", "python_worker_logs"}


@dataclass(frozen=True)
class Function:
    """A function of the registry."""

    name: str
    class_name: str
    group: str
    examples: tuple[str, ...]

    @property
    def kind(self) -> Kind | None:
        return classify_registered(self.class_name)


class Classes:
    """The classes that are classified, as the Java virtual machine has them."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session._jvm
        self._java = jvm.java.lang
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self.missing: list[str] = []
        self._found: dict[str, Any] = {}
        for name in sorted(names()):
            try:
                self._found[name] = self._class(name)
            except Py4JJavaError:
                self.missing.append(name)

    def that_are(self, trait: str) -> set[str]:
        """The names of those that have a trait, or extend a class."""
        wanted = self._class(EXPRESSIONS + trait)
        return {name for name, found in self._found.items() if wanted.isAssignableFrom(found)}

    def _class(self, name: str) -> Any:
        return self._java.Class.forName(name, False, self._loader)


@pytest.fixture(scope="module")
def functions(session: SparkSession) -> list[Function]:
    state = session.newSession()._jsparkSession.sessionState()
    return [
        *_registered(state.functionRegistry()),
        *_registered(state.tableFunctionRegistry()),
    ]


def _registered(registry: Any) -> Iterator[Function]:
    listed = registry.listFunction().iterator()
    while listed.hasNext():
        identifier = listed.next()
        info = registry.lookupFunction(identifier).get()
        examples = tuple(_EXAMPLE.findall(f"{info.getExamples()}\n"))
        yield Function(identifier.funcName(), info.getClassName(), info.getGroup(), examples)


@pytest.fixture(scope="module")
def classes(session: SparkSession) -> Classes:
    return Classes(session)


def test_every_function_of_the_registry_is_classified(functions: list[Function]) -> None:
    assert [f"{one.name}: {one.class_name}" for one in functions if one.kind is None] == []
    assert len(functions) > 550
    counts = Counter(one.kind for one in functions)
    for kind in Kind:
        print(f"{kind.name:14} {counts[kind]:4} functions, which depend on {kind.value}")
        assert counts[kind] > 0


def test_the_documents_have_the_counts(functions: list[Function]) -> None:
    counts = Counter(one.kind for one in functions)
    accepted = [counts[kind] for kind in (Kind.DETERMINISTIC, Kind.SETTLED, Kind.ORDER)]
    kept, others = len(KEPT) + len(CONTAINERS), len(REFUSED)
    written = re.sub(r"\s+", " ", GUARANTEES.read_text())
    assert (
        f"all {len(functions)} functions of the installed Spark's registry ({accepted[0]} deterministic, {accepted[1]} "
        f"whose order is settled, {accepted[2]} in windows only, {len(functions) - sum(accepted)} refused) and all "
        f"{kept + others} types of PySpark ({kept} accepted) are classified"
    ) in written


def test_show_functions_lists_nothing_else(session: SparkSession, functions: list[Function]) -> None:
    shown = {row[0] for row in session.newSession().sql("SHOW ALL FUNCTIONS").collect()}
    # These are built by the parser, from expressions that other functions have, too.
    assert shown - {one.name for one in functions} == {"!=", "<>", "case", "||"}


def test_every_class_that_is_classified_exists(classes: Classes) -> None:
    assert classes.missing == []
    assert classes.that_are("Expression") == names()


def test_every_function_that_is_named_exists(functions: list[Function]) -> None:
    registered = {one.class_name.removeprefix(EXPRESSIONS) for one in functions}
    endings = ("ExpressionBuilder", "GeneratorBuilder", "Builder")
    assert {name for name in tables.BUILDERS if not {name + one for one in endings} & registered} == set()
    named = (tables.SETTLED, tables.ORDER, tables.CLOCK, tables.CHANCE, tables.ENVIRONMENT, tables.UNSTABLE)
    spelled = {name for table in named for name in table.values() if " " not in name}
    aliases = {alias for one in tables.ALIASES.values() for alias in one.split()}
    in_text = tables.IN_TEXT | tables.COMPUTED_IN_VALUES.keys()
    assert (spelled | aliases | tables.ALIASES.keys() | in_text) - {one.name for one in functions} == set()


def test_what_spark_calls_nondeterministic_is_not_called_deterministic_here(classes: Classes) -> None:
    nondeterministic = classes.that_are("Nondeterministic")
    assert len(nondeterministic) > 10
    assert {classify(name) for name in nondeterministic} == {Kind.CHANCE, Kind.ENVIRONMENT, Kind.CLOCK}


def test_an_aggregate_is_deterministic_only_if_it_is_listed_as_such(
    classes: Classes, functions: list[Function]
) -> None:
    listed = {EXPRESSIONS + name for name in f"{tables.AGGREGATES} {tables.PEERS}".split()}
    aggregates = classes.that_are("aggregate.AggregateFunction")
    assert {name for name in aggregates if classify(name) is Kind.DETERMINISTIC} == listed
    in_group = {one.class_name for one in functions if one.group in ("agg_funcs", "window_funcs")}
    deterministic = {name for name in in_group if classify(name) is Kind.DETERMINISTIC}
    # They tell which columns a row of GROUPING SETS is grouped by.
    assert deterministic - listed == {EXPRESSIONS + "Grouping", EXPRESSIONS + "GroupingID"}


def test_a_function_of_windows_is_classified_as_one(classes: Classes) -> None:
    kinds = {classify(name) for name in classes.that_are("AggregateWindowFunction")}
    assert kinds == {Kind.DETERMINISTIC, Kind.ORDER}


def test_the_examples_of_the_registry_are_taken_as_their_functions_are(
    session: SparkSession, functions: list[Function]
) -> None:
    """Every plan of an example is made of classified expressions, and refused if its function is."""
    unknown, broken, wrong, count = [], set(), [], 0
    for function in functions:
        for sql in function.examples:
            try:
                analyzed = session.sql(sql)._jdf.queryExecution().analyzed()
            except (PySparkException, Py4JJavaError):
                broken.add(function.name)
                continue
            count += 1
            try:
                check(analyzed.toJSON(), sql)
            except UnsupportedQuery as error:
                if error.construct.startswith("Spark's expression"):
                    unknown.append(f"{sql}: {error}")
                continue
            never = (Kind.CLOCK, Kind.CHANCE, Kind.ENVIRONMENT, Kind.UNSTABLE, Kind.COLLATION)
            if not analyzed.deterministic() or (function.kind in never and _is_called(function.name, sql)):
                wrong.append(sql)
    assert unknown == []
    assert wrong == []
    assert broken - _NOT_THERE == set()
    assert count > 1200


def _is_called(name: str, sql: str) -> bool:
    return re.search(rf"\b{name}\b", sql, re.IGNORECASE) is not None
