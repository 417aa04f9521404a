"""A definition comes back as it was kept, and says what its views mean."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from headwater.engine.definition import DefinedTopic, DefinedView, Definition
from headwater.engine.explanation import Explanation, Input, Operator, Origin
from headwater.engine.manifest import Size
from headwater.errors import UnknownView

COLUMNS = pa.schema(
    [("d", pa.decimal128(12, 2)), ("t", pa.timestamp("us", "UTC")), ("s", pa.struct([("x", pa.list_(pa.int8()))]))]
)
EXPLANATION = Explanation(
    {"v": 2},
    {0: Origin(0, "topic orders")},
    {2: Operator(2, 1, "publish v", [Input("rows", 0, ["where a > 1"], ["a"])], ["count(*)"], [], "v", Size(1, 2, 3))},
)
DEFINITION = Definition(
    5,
    {"v": DefinedView("SELECT 1", COLUMNS, ("orders",)), "w": DefinedView("SELECT 2", COLUMNS, ("v", "clicks"))},
    {"orders": DefinedTopic("id bigint", ("id",)), "clicks": DefinedTopic("url string")},
    {"f": "abc"},
    EXPLANATION,
)


def test_it_survives_being_kept() -> None:
    assert Definition.from_json(json.loads(json.dumps(DEFINITION.to_json()))) == DEFINITION


def test_topics_are_read_by_views_and_views_are_not_topics() -> None:
    assert DEFINITION.topics_read == ["orders", "clicks"]


def test_a_view_that_is_not_there_is_named() -> None:
    with pytest.raises(UnknownView, match="'x'"):
        DEFINITION.view("x")
    assert DEFINITION.view("v").stored_schema.names == ["_hash", "d", "t", "s", "_w"]


def test_what_is_only_shown_does_not_change_the_meaning() -> None:
    views = {name: replace(view, reads=()) for name, view in DEFINITION.views.items()}
    assert replace(DEFINITION, views=views, explanation=Explanation()).meaning == DEFINITION.meaning


@pytest.mark.parametrize(
    "other",
    [
        replace(DEFINITION, version=6),
        replace(DEFINITION, views={**DEFINITION.views, "v": DefinedView("SELECT 3", COLUMNS)}),
        replace(DEFINITION, views={**DEFINITION.views, "v": DefinedView("SELECT 1", pa.schema([]))}),
        replace(DEFINITION, topics={**DEFINITION.topics, "orders": DefinedTopic("id bigint")}),
        replace(DEFINITION, functions={"f": "def"}),
    ],
)
def test_everything_else_does(other: Definition) -> None:
    assert other.meaning != DEFINITION.meaning


def test_narrowed_to_what_another_one_has() -> None:
    other = replace(DEFINITION, views={"v": DEFINITION.views["v"]}, topics={"orders": DEFINITION.topics["orders"]})
    assert DEFINITION.narrowed(other).meaning == other.meaning
