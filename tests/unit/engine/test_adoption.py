"""What a changed definition takes over from the former one, and what it has to build."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.adoption import adoption
from headwater.engine.arrangements import arrangement_of
from headwater.engine.definition import DefinedView, Definition
from headwater.engine.explanation import Explanation, Operator
from headwater.engine.publication import Excluded

NAMES, LAYOUTS = st.sampled_from("abcd"), st.sampled_from(["1", "2", "3"])
LAID_OUT = st.dictionaries(NAMES, LAYOUTS)


def defined(views: Mapping[str, str], states: Mapping[str, str]) -> Definition:
    """A definition of views and operators, each with a layout."""
    named = {**{arrangement_of(view): layout for view, layout in views.items()}, **states}
    operators = {
        number: Operator(
            number, 1, "", [], [], [], name.removeprefix("view/") if "/" in name else None, None, name, layout
        )
        for number, (name, layout) in enumerate(named.items())
    }
    return Definition(
        views={view: DefinedView("", pa.schema([])) for view in views}, explanation=Explanation({}, {}, operators)
    )


@given(LAID_OUT, LAID_OUT, LAID_OUT, LAID_OUT)
def test_everything_is_either_built_or_the_same_in_the_former_one(
    views: Mapping[str, str], states: Mapping[str, str], new_views: Mapping[str, str], new_states: Mapping[str, str]
) -> None:
    former, new = defined(views, states), defined(new_views, new_states)
    found, before, now = adoption(former, new), former.explanation.layouts, new.explanation.layouts
    assert sorted([*found.sources, *found.missing]) == sorted(now)
    for name, source in found.sources.items():
        assert now[name] == before[source]
        assert name.startswith("view/") == source.startswith("view/")
    for name in found.missing:
        kind = name.startswith("view/")
        assert all(now[name] != layout for other, layout in before.items() if other.startswith("view/") == kind)
    assert set(found.unchanged) == {view for view in new_views if views.get(view) == new_views[view]}
    assert sorted([*found.unchanged, *found.changed]) == sorted(new_views)


def test_the_parts_of_a_state_go_to_all_that_mean_the_same() -> None:
    found = adoption(defined({"old": "v"}, {"j": "join"}), defined({"new": "v"}, {"j": "join", "j.2": "join"}))
    assert found.arrangements(["view/old", "j/left", "j/right", "gone/rows"]) == {
        "view/old": ["view/new"],
        "j/left": ["j/left", "j.2/left"],
        "j/right": ["j/right", "j.2/right"],
    }
    assert (found.missing, found.unchanged, found.changed) == ([], set(), ["new"])


def test_a_record_that_only_a_changed_view_refused_has_to_be_read_again() -> None:
    former, new = defined({"a": "1", "b": "1"}, {"s": "1"}), defined({"a": "1", "b": "2"}, {"s": "1"})
    refused = {view: Excluded(view, "orders", 0, 7, "") for view in ("a", "b")}
    assert adoption(former, new, [refused["a"]]).unchanged == {"a"}
    found = adoption(former, new, [refused["a"], refused["b"]])
    assert found.is_whole
    assert sorted(found.missing) == ["s", "view/a", "view/b"]


def test_nothing_is_taken_from_a_definition_without_layouts() -> None:
    former = Definition(views={"a": DefinedView("", pa.schema([]))})
    assert adoption(former, defined({"a": "1"}, {})).is_whole
    assert adoption(defined({"a": "1"}, {}), former).is_whole
