"""The words of a plan are read from its JSON, each with its place."""

from __future__ import annotations

import json

from headwater.spark.vocabulary.kinds import Kind
from headwater.spark.vocabulary.tree import read
from headwater.spark.vocabulary.words import Place, words
from tests.unit.spark.vocabulary.plans import aggregate, column, expression, node, over_window, select


def test_a_tree_is_built_from_its_nodes_in_order() -> None:
    tree = read(json.dumps(node("Join", node("Project", node("Range")), node("Union"))))
    assert [one.name for one in tree.walk()] == ["Join", "Project", "Range", "Union"]
    assert [child.name for child in tree.children] == ["Project", "Union"]


def test_expressions_stand_inside_of_plan_nodes() -> None:
    plan = select(expression("Alias", expression("Add", column("a"), column("b"))), column("c"))
    tree = read(plan)
    assert [one.name for one in tree.inside()] == ["Alias", "AttributeReference"]
    assert words(plan).nodes == {"Project", "OneRowRelation"}
    assert words(plan).names == {"Project", "OneRowRelation", "Alias", "Add", "AttributeReference"}


def test_words_come_in_the_order_of_the_query() -> None:
    found = words(select(expression("Upper", column("a")), expression("Lower", column("b"))))
    assert [word.name for word in found.expressions] == ["Upper", "AttributeReference", "Lower", "AttributeReference"]


def test_the_plan_of_a_subquery_is_read() -> None:
    subquery = expression("ScalarSubquery", plan=node("Filter", node("Range"), condition=expression("Rand")))
    found = words(select(subquery))
    assert found.nodes >= {"Filter", "Range"}
    assert [word.name for word in found.expressions] == ["ScalarSubquery", "Rand"]


def test_what_an_expression_was_made_from_is_not_read() -> None:
    between = expression("Between", expression("With"), input=expression("UnresolvedWindowExpression"), replacement=0)
    assert [word.name for word in words(select(between)).expressions] == ["Between", "With"]


def test_a_plan_may_have_a_node_in_the_package_of_expressions() -> None:
    plan = json.dumps([*node("Project", expression("PipeOperator", node("Range")))])
    assert words(plan).nodes == {"Project", "PipeOperator", "Range"}
    assert words(plan).expressions == ()


def test_an_aggregate_is_told_from_one_over_a_window() -> None:
    found = words(select(aggregate("aggregate.First"), over_window(aggregate("aggregate.Last"))))
    places = {word.name: word.place for word in found.expressions}
    assert places["aggregate.First"] is Place.AGGREGATE
    assert places["aggregate.Last"] is Place.WINDOW
    assert places["AttributeReference"] is Place.ROW


def test_a_function_of_windows_is_in_a_window_and_its_arguments_are_not() -> None:
    found = words(select(over_window(expression("Lag", aggregate("aggregate.First")))))
    places = {word.name: word.place for word in found.expressions}
    assert places["Lag"] is Place.WINDOW
    assert places["aggregate.First"] is Place.AGGREGATE


def test_the_filter_of_an_aggregate_is_of_one_row() -> None:
    function, condition = expression("aggregate.Sum", column("x")), expression("IsNull", column("y"))
    plan = select(expression("aggregate.AggregateExpression", function, condition, aggregateFunction=0, filter=1))
    places = {word.name: word.place for word in words(plan).expressions}
    assert places["aggregate.Sum"] is Place.AGGREGATE
    assert places["IsNull"] is Place.ROW


def test_words_have_their_kinds() -> None:
    found = words(select(expression("Upper"), expression("Rand"), expression("Frobnicate")))
    assert [word.kind for word in found.expressions] == [Kind.DETERMINISTIC, Kind.CHANCE, None]


def test_a_deep_expression_is_read() -> None:
    deep = column()
    for _ in range(5000):
        deep = expression("Not", deep)
    assert len(words(select(deep)).expressions) == 5001
