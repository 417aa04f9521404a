"""Every name stands once in an object, however it is written, and whatever else looks like a name."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import strict_json
from headwater.model.rows import parse_json_lines
from headwater.model.strict_json import DuplicateKey, duplicate_key

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
DOUBLED = [
    b'{"id":1,"id":2}',
    b'{"id": 1, "id": 1}',
    b'{"id" :1,"id"\t:2}',
    b'{"id":1,"i\\u0064":2}',
    b'{"text":"{\\"id\\":1}","id":1,"id":2}',
    b'{"id":1,"text":"\\":","id":2}',
    b'{"id":1,"id"\r:2, "text":":"}',
]
SINGLE = [
    b'{"id":1,"text":"10:00:00"}',
    b'{"id":1,"text":":"}',
    b'{"id":1,"text":"{\\"id\\":1,\\"id\\":2}"}',
    b'{"id" : 1, "text": "a : b"}',
]


@pytest.mark.parametrize("others", [0, 100])
@pytest.mark.parametrize("line", DOUBLED)
def test_a_record_with_a_name_more_than_once_is_rejected(line: bytes, others: int) -> None:
    lines = [*[SINGLE[0]] * others, line, *[SINGLE[2]] * others]
    table, (rejected,) = parse_json_lines(b"\n".join(lines), SCHEMA)
    assert table.num_rows == 2 * others
    assert (rejected.index, rejected.field, rejected.original) == (others, "id", line)
    assert rejected.reason == "field 'id': expected one value, got several"


@pytest.mark.parametrize("others", [0, 100])
@pytest.mark.parametrize("line", SINGLE)
def test_what_only_looks_like_it_is_taken(line: bytes, others: int) -> None:
    table, rejected = parse_json_lines(b"\n".join([line] * (others + 1)), SCHEMA)
    assert (table.num_rows, rejected) == (others + 1, [])


def test_a_line_that_is_no_json_hides_no_other() -> None:
    """Together they are an array of strings."""
    lines = [b'["', b'{",":1,",":2}', b'"]'] * 20
    _, rejected = parse_json_lines(b"\n".join(lines), SCHEMA)
    assert [one.field for one in rejected] == [None, ",", None] * 20


def test_nested_names_count_as_well() -> None:
    schema = pa.schema([("who", pa.struct([("name", pa.string())]))])
    for line, count in ((b'{"who": {"name": "a"}}', 0), (b'{"who": {"name": "a", "name": "b"}}', 1)):
        _, rejected = parse_json_lines(b"\n".join([line] * 50), schema)
        assert len(rejected) == count * 50


names = st.sampled_from(["a", "b", 'c"', ":", "d :", "e\\"])
values = st.recursive(
    st.integers() | st.sampled_from(['"', '":', " :", "\\", '\\":']),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(names, inner), max_size=3).map(tuple),
    max_leaves=6,
)


def written(value: object) -> tuple[str, bool]:
    """A value as JSON, where an object is a tuple of pairs; and whether one has a name more than once."""
    if isinstance(value, tuple):
        parts = [(name, *written(inner)) for name, inner in value]
        doubled = len({name for name, *_ in parts}) != len(parts) or any(one[2] for one in parts)
        return "{" + ",".join(f"{json.dumps(name)} :{text}" for name, text, _ in parts) + "}", doubled
    if isinstance(value, list):
        inside = [written(inner) for inner in value]
        return "[" + ",".join(text for text, _ in inside) + "]", any(doubled for _, doubled in inside)
    return json.dumps(value), False


@given(st.lists(st.lists(st.tuples(names, values), max_size=4).map(tuple), max_size=50), st.booleans())
def test_duplicates_are_found_wherever_they_are(objects: list[object], spaced: bool) -> None:
    made = [written(one) for one in objects]
    lines = [(text if spaced else text.replace('" :', '":')).encode() for text, _ in made]
    counts = [len(json.loads(line)) for line in lines]
    found = strict_json.duplicate_keys(lines, counts, all_json=True)
    assert set(found) == {at for at, line in enumerate(lines) if duplicate_key(line) is not None}
    if spaced:
        assert set(found) == {at for at, (_, doubled) in enumerate(made) if doubled}


def test_a_body_is_read_strictly() -> None:
    assert strict_json.loads('{"a": [{"b": 1}]}') == {"a": [{"b": 1}]}
    with pytest.raises(DuplicateKey, match="'b' is given more than once"):
        strict_json.loads(b'{"a": [{"b": 1, "b": 1}]}')
    with pytest.raises(ValueError, match="Expecting"):
        strict_json.loads(b"{")
