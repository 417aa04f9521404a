"""What hypothesis makes up for the tests of the model: types, schemas, and values of a type."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pat
from hypothesis import strategies as st

from headwater.model.canonical import COMMENT, contains_map
from headwater.model.record import SYSTEM_COLUMNS

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = (
    st.one_of(
        st.from_regex(r"[a-zA-Z_]\w{0,8}", fullmatch=True), TEXTS.filter(bool), st.sampled_from(["`", "a b", "not"])
    )
    .filter(lambda name: "\0" not in name)
    .filter(lambda name: name.lower() not in SYSTEM_COLUMNS)
)
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s)))
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
PLAIN_TYPES: st.SearchStrategy[pa.DataType] = st.one_of(
    st.sampled_from(
        [
            *INTEGERS,
            pa.float32(),
            pa.float64(),
            pa.string(),
            pa.binary(),
            pa.bool_(),
            pa.date32(),
            pa.timestamp("us", "UTC"),
            pa.timestamp("us"),
        ]
    ),
    DECIMALS,
)


def fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    comments = st.one_of(st.none(), TEXTS.map(lambda text: {COMMENT: text.encode()}))
    field = st.builds(pa.field, NAMES, types, st.booleans(), comments)
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda field: field.name.lower())


def _nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    keys = types.filter(lambda arrow: not contains_map(arrow))
    return st.one_of(st.builds(pa.list_, types), st.builds(pa.map_, keys, types), st.builds(pa.struct, fields(types)))


TYPES: st.SearchStrategy[pa.DataType] = st.recursive(PLAIN_TYPES, _nested, max_leaves=5)
SCHEMAS: st.SearchStrategy[pa.Schema] = fields(TYPES).map(pa.schema)


def optional(arrow: pa.DataType, nullable: bool = True) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), values(arrow)) if nullable else values(arrow)


def values(arrow: pa.DataType) -> st.SearchStrategy[object]:
    """Values that Arrow gives back as they are, but for a map: a dict, or pairs where a dict cannot have the keys."""
    if pat.is_integer(arrow):
        limit = 1 << (arrow.bit_width - 1)
        return st.integers(-limit, limit - 1)
    if pat.is_floating(arrow):
        return st.floats(width=32 if arrow == pa.float32() else 64, allow_nan=False)
    if pat.is_decimal128(arrow):
        return st.integers(1 - 10**arrow.precision, 10**arrow.precision - 1).map(
            lambda unscaled: Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -arrow.scale))
        )
    if pat.is_timestamp(arrow):
        return st.datetimes(timezones=st.none() if arrow.tz is None else st.just(UTC))
    if pat.is_map(arrow):
        pairs = st.tuples(values(arrow.key_type), optional(arrow.item_type))
        return st.lists(pairs, max_size=3, unique_by=lambda pair: repr(as_arrow_gives_it(pair[0], arrow.key_type))).map(
            _as_mapping
        )
    if pat.is_list(arrow):
        return st.lists(optional(arrow.value_type), max_size=3)
    if pat.is_struct(arrow):
        return st.fixed_dictionaries({field.name: optional(field.type, field.nullable) for field in arrow})
    return _PLAIN_VALUES[arrow]


_PLAIN_VALUES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.string(): TEXTS,
    pa.binary(): st.binary(max_size=12),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
}


def _as_mapping(pairs: list[tuple[object, object]]) -> object:
    try:
        mapping = dict(pairs)
    except TypeError:
        return pairs
    return mapping if len(mapping) == len(pairs) else pairs


def as_arrow_gives_it(value: object, arrow: pa.DataType) -> object:
    """The value as `to_pylist` shows it: a map is a list of pairs."""
    if value is None:
        return None
    if pat.is_map(arrow):
        pairs = value.items() if isinstance(value, dict) else value
        return [(as_arrow_gives_it(k, arrow.key_type), as_arrow_gives_it(v, arrow.item_type)) for k, v in pairs]  # type: ignore[attr-defined]
    if pat.is_list(arrow):
        return [as_arrow_gives_it(item, arrow.value_type) for item in value]  # type: ignore[attr-defined]
    if pat.is_struct(arrow):
        return {field.name: as_arrow_gives_it(value[field.name], field.type) for field in arrow}  # type: ignore[index]
    return value


def records(schema: pa.Schema) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({field.name: optional(field.type, field.nullable) for field in schema})
