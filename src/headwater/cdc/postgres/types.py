"""Which type of a topic's column each type of PostgreSQL becomes: every value has one place, and none is rounded.

A type that has no counterpart arrives as PostgreSQL's own text: `time`, `interval` (ISO 8601), `uuid`, `json`, ranges,
networks, `money`, bit strings, geometry, enums, types of extensions, `numeric` without a precision. Arrays of one
dimension become arrays. What a column's type cannot hold (`NaN` in a `numeric(10,2)`, a date of `infinity`, an array
of two dimensions) is null in the column and stands as text in the record's headers; see `values`.
"""

from __future__ import annotations

import pyarrow as pa

from headwater.model.canonical import DECIMAL_PRECISION_MAX

BUILT_IN: dict[int, str] = {
    16: "bool", 17: "bytea", 18: "char", 19: "name", 20: "int8", 21: "int2", 23: "int4", 25: "text", 26: "oid",
    114: "json", 142: "xml", 700: "float4", 701: "float8", 790: "money", 869: "inet", 650: "cidr", 829: "macaddr",
    1042: "bpchar", 1043: "varchar", 1082: "date", 1083: "time", 1114: "timestamp", 1184: "timestamptz",
    1186: "interval", 1266: "timetz", 1560: "bit", 1562: "varbit", 1700: "numeric", 2950: "uuid", 3802: "jsonb",
    1000: "_bool", 1001: "_bytea", 1002: "_char", 1003: "_name", 1016: "_int8", 1005: "_int2", 1007: "_int4",
    1009: "_text", 1028: "_oid", 199: "_json", 143: "_xml", 1021: "_float4", 1022: "_float8", 791: "_money",
    1041: "_inet", 651: "_cidr", 1040: "_macaddr", 1014: "_bpchar", 1015: "_varchar", 1182: "_date", 1183: "_time",
    1115: "_timestamp", 1185: "_timestamptz", 1187: "_interval", 1270: "_timetz", 1561: "_bit", 1563: "_varbit",
    1231: "_numeric", 2951: "_uuid", 3807: "_jsonb",
}  # fmt: skip
"""The names of built-in types by their numbers, which never change."""

_PLAIN: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "bytea": pa.binary(),
}
# The only built-in type whose arrays are not separated by commas.
_OTHER_DELIMITER = "_box"
# How PostgreSQL packs precision and scale of a numeric into a type modifier, and what it adds to it.
_MODIFIER_OFFSET = 4
_SCALE_BITS = 0x7FF


def arrow_type(name: str, modifier: int = -1) -> pa.DataType:
    """The type of the column that holds values of a type of PostgreSQL, by its name (`_name` for an array of it)."""
    if name == "numeric":
        return _numeric(modifier)
    if name.startswith("_") and name != _OTHER_DELIMITER:
        return pa.list_(arrow_type(name[1:], modifier))
    return _PLAIN.get(name, pa.string())


def _numeric(modifier: int) -> pa.DataType:
    """A decimal if the column says how many digits it has, and there is room for them; otherwise text."""
    if modifier < _MODIFIER_OFFSET:
        return pa.string()
    packed = modifier - _MODIFIER_OFFSET
    precision, scale = packed >> 16 & 0xFFFF, packed & _SCALE_BITS
    if scale > _SCALE_BITS // 2:
        scale -= _SCALE_BITS + 1
    # numeric(3,-2) has two zeros more before the point, numeric(3,5) has two zeros behind it.
    digits = max(precision - scale, 0) + max(scale, 0)
    return pa.decimal128(digits, max(scale, 0)) if digits <= DECIMAL_PRECISION_MAX else pa.string()
