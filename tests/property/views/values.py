"""Types and values that kernels are tried with: few of each, many of them strange, so that they often meet."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = tuple[Any, ...]

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
DOUBLES = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, -1.5, 1e16, -1e16, 1.0, 5e-324, 1.7e308, 0.1]
POOLS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [0, -128, 127],
    pa.int32(): [0, 1, -1, 2**31 - 1],
    pa.int64(): [0, 1, -1, 7, 2**63 - 1, -(2**63)],
    pa.float32(): [0.0, -0.0, float("nan"), 0.5, float("-inf")],
    pa.float64(): DOUBLES,
    pa.decimal128(5, 2): [Decimal("0.00"), Decimal("1.50"), Decimal("-999.99"), Decimal("999.99")],
    pa.decimal128(38, 3): [Decimal("0.001"), Decimal(-1), Decimal(10**34)],
    pa.string(): ["", "a", "A", "a ", "é", "\U0001f600"],
    pa.binary(): [b"", b"a", b"\xff", b"\x00"],
    pa.date32(): [date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [NOON, NOON + timedelta(microseconds=1), NOON - timedelta(days=20000)],
    pa.timestamp("us"): [NOON.replace(tzinfo=None), NOON.replace(tzinfo=None) - timedelta(days=20000)],
    pa.duration("us"): [timedelta(0), timedelta(days=-1), timedelta(microseconds=5)],
    pa.list_(pa.float64()): [[], [0.0], [-0.0], [None], [float("nan"), 1.0], [1.0, 2.0]],
    pa.struct([("x", pa.float64()), ("y", pa.string())]): [
        {"x": 0.0, "y": "a"},
        {"x": -0.0, "y": "a"},
        {"x": None, "y": None},
        {"x": float("nan"), "y": ""},
    ],
    pa.list_(pa.struct([("z", pa.list_(pa.int32()))])): [
        [{"z": [1]}],
        [{"z": None}],
        [None],
        [{"z": []}, {"z": [1, 2]}],
    ],
    pa.map_(pa.string(), pa.float64()): [[], [("a", 1.0)], [("a", None)], [("a", 0.0), ("b", float("nan"))]],
}
FLAT = [kind for kind in POOLS if not pa.types.is_nested(kind)]
ORDERED = [kind for kind in POOLS if not pa.types.is_map(kind)]
NUMERIC = [
    kind for kind in FLAT if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
]


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, sometimes null."""
    return st.sampled_from([None, *POOLS[kind]])


def rows(kinds: Sequence[pa.DataType]) -> st.SearchStrategy[Row]:
    return st.tuples(*map(values, kinds))


def identity(value: Any) -> Any:
    """A value that can be hashed, equal for values that are the same: NaN is NaN, -0.0 is not 0.0."""
    if isinstance(value, float):
        return ("double", struct.pack(">d", float("nan") if value != value else value))  # noqa: PLR0124
    if isinstance(value, dict):
        return tuple((name, identity(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(identity(each) for each in value)
    return value


def normal(value: Any) -> Any:
    """The value with 0.0 for -0.0, as SQL shows keys."""
    if isinstance(value, float):
        return value or 0.0
    if isinstance(value, dict):
        return {name: normal(each) for name, each in value.items()}
    if isinstance(value, list):
        return [normal(each) for each in value]
    return tuple(normal(each) for each in value) if isinstance(value, tuple) else value


def place(value: Any) -> Any:
    """A value ordered as Spark orders: null first, NaN last, strings by bytes; -0.0 and 0.0 are equal."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2, 0.0) if value != value else (1, value)  # noqa: PLR0124
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, dict):
        return (1, tuple(place(each) for each in value.values()))
    if isinstance(value, list | tuple):
        return (1, tuple(place(each) for each in value))
    return (1, value)


def strict_place(value: Any) -> Any:
    """As `place`, with -0.0 before 0.0."""
    if isinstance(value, float):
        return (*place(value), struct.pack(">d", value) == struct.pack(">d", 0.0))
    if isinstance(value, dict):
        return (1, tuple(strict_place(each) for each in value.values()))
    if isinstance(value, list | tuple):
        return (1, tuple(strict_place(each) for each in value))
    return place(value)
