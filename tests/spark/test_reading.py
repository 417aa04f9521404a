"""What an optimized plan says, as values, and what an expression says about itself."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headwater.spark.catalyst import Catalyst, conjuncts, plans, read, unaliased, walk
from headwater.spark.catalyst.expressions import SortOrder
from headwater.spark.catalyst.history import Reference, analyze, references
from headwater.spark.catalyst.plans import Plan
from headwater.spark.catalyst.relations import is_statement

SCHEMA = StructType([StructField("id", LongType()), StructField("k", StringType())])


@pytest.fixture
def catalyst(spark: SparkSession) -> Catalyst:
    catalyst = Catalyst(spark.newSession())
    for name in ("t", "u"):
        catalyst.relation(SCHEMA).createOrReplaceTempView(name)
    return catalyst


def plan_of(catalyst: Catalyst, sql: str) -> Plan:
    return read(catalyst, catalyst.optimize(analyze(catalyst, sql)))


def test_a_projection_over_a_filter_over_a_relation(catalyst: Catalyst) -> None:
    plan = plan_of(catalyst, "SELECT id + 1 AS n, k FROM t WHERE id > 5 AND k IS NOT NULL")
    assert isinstance(plan, plans.Project)
    assert [column.name for column in plan.columns] == ["n", "k"]
    assert [(column.is_alias, column.is_attribute) for column in plan.columns] == [(True, False), (False, True)]
    assert isinstance(plan.columns[0].type, LongType)
    below = plan.child
    assert isinstance(below, plans.Filter)
    assert [part.kind for part in conjuncts(below.condition)].count("GreaterThan") == 1
    scan = below.child
    assert isinstance(scan, plans.Scan)
    assert [attribute.name for attribute in scan.output] == ["id", "k"]
    assert plan.columns[0].references == {scan.output[0].identity}
    assert plan.columns[1].same_as(scan.output[1])
    assert [part.value for part in walk(unaliased(plan.columns[0])) if part.is_literal] == [1]


def test_a_join_has_its_keys_apart_from_the_rest_of_its_condition(catalyst: Catalyst) -> None:
    plan = plan_of(catalyst, "SELECT t.id, u.id AS other FROM t LEFT JOIN u ON t.k = u.k AND t.id < u.id")
    while not isinstance(plan, plans.Join):
        assert isinstance(plan, plans.Project)
        plan = plan.child
    assert plan.kind == "LeftOuter"
    assert [key.name for key in (*plan.left_key, *plan.right_key)] == ["k", "k"]
    assert plan.condition is not None
    assert plan.condition.kind == "LessThan"
    assert plan.exists is None


def test_an_aggregate_has_its_calls(catalyst: Catalyst) -> None:
    plan = plan_of(catalyst, "SELECT k, count(id) FILTER (WHERE id > 1) + 1 AS n FROM t GROUP BY k")
    assert isinstance(plan, plans.Aggregate)
    assert plan.calls is not None
    (call,) = [expression.call for expression in plan.calls]
    assert call is not None
    assert (call.function.kind, call.is_distinct) == ("Count", False)
    assert call.condition is not None
    assert call.condition.kind == "GreaterThan"
    assert call.result.identity in plan.results[1].references


def test_a_window_has_its_function_and_its_order(catalyst: Catalyst) -> None:
    plan = plan_of(catalyst, "SELECT id, rank() OVER (PARTITION BY k ORDER BY id DESC NULLS FIRST) AS r FROM t")
    while not isinstance(plan, plans.Window):
        assert isinstance(plan, plans.Project)
        plan = plan.child
    function = unaliased(plan.columns[0]).window_function
    assert function is not None
    assert function.kind == "Rank"
    order = SortOrder.of(plan.order[0])
    assert (order.child.name, order.descending, order.nulls_first) == ("id", True, True)


def test_a_limit_has_its_count_and_a_union_its_children(catalyst: Catalyst) -> None:
    limit = plan_of(catalyst, "SELECT id FROM t ORDER BY id LIMIT 3")
    assert isinstance(limit, plans.Limit)
    assert limit.count == 3
    assert isinstance(limit.child, plans.LocalLimit)
    assert isinstance(limit.child.child, plans.Sort)
    union = plan_of(catalyst, "SELECT id FROM t UNION ALL SELECT id FROM u")
    assert isinstance(union, plans.Union)
    assert len(union.children) == 2


def test_a_node_that_is_not_known_says_what_it_is(catalyst: Catalyst) -> None:
    plan = plan_of(catalyst, "SELECT * FROM t TABLESAMPLE (50 PERCENT)")
    assert isinstance(plan, plans.Unknown)
    assert plan.kind == "Sample"
    assert plan.text.startswith("Sample")


def test_relations_are_found_in_subqueries_and_statements_inside_of_queries(catalyst: Catalyst) -> None:
    found = references(catalyst, catalyst.parse("SELECT (SELECT max(id) FROM a.b) FROM t AS x, Changes('t')"))
    assert found == {Reference("a.b"), Reference("t"), Reference("t", "changes")}
    assert is_statement(catalyst, catalyst.parse("INSERT INTO t VALUES (1, 'a')"))
    assert not is_statement(catalyst, catalyst.parse("SELECT * FROM t"))
