"""Templates put values into text and JSON so that they stay values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.connectors.templates import JsonTemplate, TextTemplate, values_of
from headwater.engine.sinks.channel import Notice
from headwater.errors import TargetFailed, UsageError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@settings(max_examples=40)
@given(VALUES, VALUES)
def test_json_of_any_values_reads_back_as_these_values(a: Any, b: Any) -> None:
    values = {"a": a, "b b": b}
    from_text = JsonTemplate('{"whole": $a, "quoted": "$a", "mixed": "\\"$a\\\\${b b}$$", "list": [${b b}, 1]}')
    from_object = JsonTemplate({"whole": "$a", "quoted": "${a}", "mixed": '"$a\\${b b}$$', "list": ["${b b}", 1]})
    mixed = f'"{text(a)}\\{text(b)}$'
    assert json.loads(from_text.render(values)) == {"whole": a, "quoted": text(a), "mixed": mixed, "list": [b, 1]}
    assert json.loads(from_object.render(values)) == {"whole": a, "quoted": a, "mixed": mixed, "list": [b, 1]}


def test_values_are_not_looked_at_for_placeholders() -> None:
    assert TextTemplate("$a $b").render({"a": "$b ${b} $$", "b": 1.5}) == "$b ${b} $$ 1.5"


def test_a_name_ends_where_an_identifier_ends() -> None:
    assert TextTemplate("$a.b $a_b ${a}b").render({"a": 1, "a_b": 2}) == "1.b 2 1b"


@pytest.mark.parametrize("body", ["", "{", '{"a": "$x}', "{$x: 1}", '"\\$x"', "$x$y"])
def test_what_is_no_json_is_refused(body: str) -> None:
    with pytest.raises(UsageError, match="is not JSON"):
        JsonTemplate(body)


@pytest.mark.parametrize("template", ["5 $", "$ x", "${}", "${a", "$1"])
def test_a_dollar_sign_that_begins_nothing_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="does not begin a placeholder"):
        TextTemplate(template)


def test_a_body_with_other_than_texts_as_names_is_refused() -> None:
    with pytest.raises(UsageError, match="has the name 1"):
        JsonTemplate({"a": {1: 2}})


def test_what_stands_for_nothing_fails_for_good() -> None:
    with pytest.raises(TargetFailed, match=r"\$b") as raised:
        TextTemplate("$b").render({"a": 1})
    assert raised.value.kind == "gone"


def test_fields_of_the_notice_win_over_columns() -> None:
    notice = Notice("n", "v", "added", "7", {"_id": "mine", "id": 7}, "3", "2026-01-01T00:00:00Z")
    values = values_of("m_1", notice)
    assert (values["_id"], values["id"], values["_row"]) == ("m_1", 7, {"_id": "mine", "id": 7})
