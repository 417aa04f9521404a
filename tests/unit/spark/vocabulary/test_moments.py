"""Literals and casts that mean the time of planning are found, and others are not taken for them."""

from __future__ import annotations

import pytest

from headwater.spark.vocabulary.lexer import tokens
from headwater.spark.vocabulary.moments import casts_special, special_literals
from headwater.spark.vocabulary.tree import read
from tests.unit.spark.vocabulary.plans import Nodes, aggregate, column, expression, literal, select


def literals(sql: str) -> list[str]:
    return list(special_literals(tuple(tokens(sql))))


@pytest.mark.parametrize(
    "literal",
    [
        "timestamp 'now'",
        "TIMESTAMP'Now'",
        'timestamp "now"',
        "timestamp r'now'",
        "date ' ToDay '",
        "date 'today\\n'",
        "date '\\164oday'",
        "timestamp_ntz 'tomorrow'",
        "timestamp_ltz '\\u0079esterday'",
        "date 'today Europe/Berlin'",
        "date 'tomorrow+01:00'",
        "timestamp /* at */ 'now'",
        "timestamp -- at\n 'now'",
    ],
)
def test_a_literal_of_the_time_of_planning_is_found(literal: str) -> None:
    assert len(literals(f"SELECT x, {literal} AS t FROM u")) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "timestamp 'epoch'",
        "timestamp '2020-01-01'",
        "date 'nowadays'",
        "'now'",
        "\"timestamp 'now'\"",
        "-- timestamp 'now'",
        "/* timestamp 'now' */ 1",
        "x = 'today'",
        "timestamp AS a, 'now'",
        "interval 'now' day",
    ],
)
def test_other_literals_are_not_taken_for_it(sql: str) -> None:
    assert literals(f"SELECT {sql}") == []


def cast(value: Nodes, to: str = "timestamp", name: str = "Cast") -> bool:
    (tree,) = read(select(expression(name, value, dataType=to))).inside()
    return casts_special(tree)


@pytest.mark.parametrize("to", ["date", "timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("text", ["now", " Today", "TOMORROW", "yesterday UTC"])
def test_a_cast_of_a_special_string_is_found(text: str, to: str) -> None:
    assert cast(literal(text), to)
    assert cast(literal(text), to, name="ParseToTimestamp")


def test_a_cast_of_another_literal_is_not() -> None:
    assert not cast(literal("2020-01-01"))
    assert not cast(literal("nowhere"))
    assert not cast(literal("now"), to="integer")
    assert not cast(literal("5", "integer"))


def test_a_cast_of_what_a_row_holds_is_not() -> None:
    assert not cast(column())
    assert not cast(expression("Concat", column(), literal("now")))
    assert not cast(expression("Lower", expression("ScalarSubquery")))
    assert not cast(expression("Lower", aggregate("aggregate.Max")))


def test_a_cast_of_a_string_that_is_computed_from_literals_is() -> None:
    assert cast(expression("Concat", literal("no"), literal("w")))
    assert cast(expression("Cast", literal("x", "binary"), dataType="string"))
    assert cast(expression("If", literal("true", "boolean"), literal("now"), literal("2020-01-01")))


def test_a_cast_of_a_time_that_is_computed_from_literals_is_not() -> None:
    assert not cast(expression("DateAdd", literal("1", "date"), literal("1", "integer")))
    assert not cast(expression("Cast", literal("1", "integer"), dataType="date"))
    assert not cast(expression("Coalesce", literal("1", "date"), expression("MakeDate")))


def test_a_string_that_is_parsed_by_a_format_is_not() -> None:
    (tree,) = read(select(expression("ParseToDate", literal("now"), literal("yyyy"), format=literal("yyyy")))).inside()
    assert not casts_special(tree)
    (tree,) = read(select(expression("ParseToDate", literal("now")))).inside()
    assert casts_special(tree)
