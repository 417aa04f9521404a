"""Values of a topic as PostgreSQL writes them: the way back from what `values` reads, so that a server's digest of a
row can be computed from the log."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.cdc.postgres.arrays import format_array

_EXPONENT_MIN = -4
# Such a middle is an odd number times a power of 2; to be short it needs a power of 5 that is too large for it.
_MIDDLES_MAX = 1e38
# Arrow writes a decimal with more zeros behind the point with an exponent.
_PLAIN_SCALE_MAX = 6


def to_texts(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    """The text of each value, null where there is none. `arrow` is the type that its column has in the database."""
    if not values.type.equals(arrow):
        values = values.cast(arrow)
    if pat.is_string(arrow):
        return values
    if pat.is_boolean(arrow):
        return pc.if_else(values, "t", "f")
    if pat.is_integer(arrow) or pat.is_date(arrow) or (pat.is_decimal(arrow) and arrow.scale <= _PLAIN_SCALE_MAX):
        return values.cast(pa.string())
    if pat.is_timestamp(arrow):
        return _times(values, arrow)
    return _each(values, _writer(arrow))


def _times(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Without zeros at the end of fractions of a second; in UTC, as the session has it."""
    texts = values.cast(pa.timestamp("us")).cast(pa.string())
    texts = pc.replace_substring_regex(texts, r"\.?0{1,6}$", "") if _have_fractions(texts) else texts
    return pc.binary_join_element_wise(texts, "+00", "") if arrow.tz is not None else texts


def _have_fractions(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring(texts, ".")).as_py())


def _each(values: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in values.to_pylist()], pa.string())


def _writer(arrow: pa.DataType) -> Callable[[Any], str]:
    if pat.is_binary(arrow):
        return lambda value: "\\x" + value.hex()
    if pat.is_decimal(arrow):
        return lambda value: format(value, "f")
    if pat.is_list(arrow):
        return lambda value: format_array(to_texts(pa.array(value, arrow.value_type), arrow.value_type).to_pylist())
    digits, kind = (15, np.float64) if arrow == pa.float64() else (6, np.float32)
    return lambda value: _float(value, digits, kind)


def _float(value: float, digits: int, kind: type[np.floating[Any]]) -> str:
    """From how many `digits` on PostgreSQL uses an exponent: as many as surely survive a way through text."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    mantissa, _, exponent = _shortest(kind(abs(value))).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    significant = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(significant))
    significant = significant.rstrip("0")
    if not significant:
        return f"{sign}0"
    power = point - 1
    if power < _EXPONENT_MIN or power >= digits:
        tail = f".{significant[1:]}" if len(significant) > 1 else ""
        return f"{sign}{significant[0]}{tail}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{significant}"
    if len(significant) <= point:
        return f"{sign}{significant}{'0' * (point - len(significant))}"
    return f"{sign}{significant[:point]}.{significant[point:]}"


def _shortest(value: np.floating[Any]) -> str:
    """The fewest digits that are nearer to the value than to any other.

    numpy's may also be as near to a neighbour, if reading it back still gives the value; PostgreSQL's are not.
    """
    found = np.format_float_scientific(value, unique=True, trim="-")
    digits = len(found.partition("e")[0].replace(".", ""))
    # Below and above, what lies in the middle of two has more digits than are ever written.
    if not 1 / np.finfo(value.dtype).epsneg <= value < _MIDDLES_MAX:
        return found
    neighbours = [Fraction(float(np.nextafter(value, value.dtype.type(to)))) for to in (0, np.inf)]
    exact = Fraction(float(value))
    while any(Fraction(found) == (exact + other) / 2 for other in neighbours):
        found = format(float(value), f".{digits}e")
        digits += 1
    return found
