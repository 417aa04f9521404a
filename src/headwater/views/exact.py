"""Sums that lose nothing: integers, decimals and doubles as whole-number limbs, so that a retraction leaves no residue.

A number is written as a sum of limb * 2^(32 * place) with small whole limbs. Limbs of the same place add up in 64 bits;
taking a number away again takes exactly its limbs away. Only the total turns limbs back into one number, and only there
can a sum be found too large. Sums of up to 2^30 rows are safe.

    integers, decimals of up to 18 digits    places 0 and 1 of the (unscaled) 64-bit number, the last one signed
    wider decimals                           places 0 to 3 of the unscaled 128-bit number, the last one signed
    doubles                                  three places from the number's lowest bit on, place 0 being 2^-1152
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from headwater.views.identity import Numbers

Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_BITS = 32
_MASK = np.int64(0xFFFFFFFF)
_LONG_DIGITS_MAX = 18
# Written with 53 bits the least double, 2^-1074, reaches down to 2^-1126; place 0 begins below, at a multiple of 32.
_LOWEST_BIT = -1152
_MANTISSA_BITS = 53
# How many limbs are turned into doubles at once.
_CELLS_MAX = 1 << 22


def whole_places(kind: pa.DataType) -> int:
    """How many limbs numbers of an integer, duration or decimal type have."""
    return 4 if pat.is_decimal(kind) and kind.precision > _LONG_DIGITS_MAX else 2


def whole_limbs(column: pa.Array) -> list[Numbers]:
    """The limbs of integers, durations or decimals, lowest place first. Those of nulls mean nothing."""
    if pat.is_decimal(column.type):
        halves = _longs(column, 2)
        low, high = halves[0::2], halves[1::2]
    else:
        longs = column.view(pa.int64()) if pat.is_duration(column.type) else column.cast(pa.int64())
        low = high = _longs(longs, 1)
    if whole_places(column.type) == 2:
        return [low & _MASK, low >> _BITS]
    return [low & _MASK, (low >> _BITS) & _MASK, high & _MASK, high >> _BITS]


def whole_totals(limbs: list[Numbers], kind: pa.DataType, valid: Flags) -> tuple[pa.Array, Flags]:
    """The numbers that sums of limbs stand for, null where not valid; and which of them fit the type."""
    digits, carry = [], np.zeros(len(valid), dtype=np.int64)
    for limb in limbs[:-1]:
        carried = limb + carry
        digits.append(carried & _MASK)
        carry = carried >> _BITS
    top = limbs[-1] + carry
    if len(limbs) == 2:
        low, high, fits = digits[0] | ((top & _MASK) << _BITS), top >> _BITS, np.ones(len(top), dtype=bool)
    else:
        low, high = digits[0] | (digits[1] << _BITS), digits[2] | (top << _BITS)
        fits = (top >> (_BITS - 1)) == (top >> (2 * _BITS - 1))
    if not pat.is_decimal(kind):
        longs = pa.array(low, pa.int64(), mask=~valid)
        return longs.view(kind) if pat.is_duration(kind) else longs.cast(kind), fits & (high == low >> 63)
    greatest = 10**kind.precision - 1
    fits &= ~_greater(high, low, greatest) & ~_greater(~high, ~low, greatest - 1)
    bitmap = pa.array(valid).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(np.stack([low, high], axis=1)))
    return pa.Array.from_buffers(kind, len(low), [bitmap, data]), fits


def double_limbs(values: Doubles) -> tuple[Numbers, list[Numbers]]:
    """For finite doubles the place of their lowest limb, and three limbs from there on."""
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, _MANTISSA_BITS).astype(np.int64)
    lowest = exponent.astype(np.int64) - _MANTISSA_BITS - _LOWEST_BIT
    place, shift = lowest >> 5, lowest & 31
    # whole * 2^shift has up to 53 + 31 bits: two halves of the mantissa are shifted apart.
    low, high = (whole & _MASK) << shift, (whole >> _BITS) << shift
    return place, [low & _MASK, (low >> _BITS) + (high & _MASK), high >> _BITS]


def double_totals(numbers: Numbers, places: Numbers, limbs: Numbers, count: int) -> Doubles:
    """For each number below `count` the double nearest to the sum of its limbs; infinite if that is too large."""
    totals = np.zeros(count)
    if not len(limbs):
        return totals
    lowest = int(places.min())
    # Two places more for what is carried, two less because the leading three limbs are looked at.
    width = int(places.max()) - lowest + 5
    block = max(1, _CELLS_MAX // width)
    for begin in range(0, count, block):
        end = min(begin + block, count)
        inside = (numbers >= begin) & (numbers < end)
        digits = np.zeros((width, end - begin), dtype=np.int64)
        np.add.at(digits, (places[inside] - lowest + 2, numbers[inside] - begin), limbs[inside])
        totals[begin:end] = _doubles(digits, _BITS * (lowest - 2) + _LOWEST_BIT)
    return totals


def _longs(column: pa.Array, each: int) -> Numbers:
    """The memory of a column whose values have this many 64-bit words each."""
    if not len(column):
        return np.zeros(0, dtype=np.int64)
    words = np.frombuffer(column.buffers()[1], np.int64, count=each * (column.offset + len(column)))
    return words[each * column.offset :]


def _doubles(digits: Numbers, lowest_bit: int) -> Doubles:
    """The doubles nearest to numbers whose limbs are the columns, lowest place first."""
    _carry(digits)
    sign = np.where(digits[-1] < 0, np.int64(-1), np.int64(1))
    digits *= sign
    _carry(digits)
    some = digits != 0
    top = np.maximum(len(digits) - 1 - np.argmax(some[::-1], axis=0), 2)
    column = np.arange(digits.shape[1])
    first, second, third = (digits[top - back, column].astype(np.uint64) for back in range(3))
    below = np.concatenate([np.zeros((3, digits.shape[1]), dtype=bool), np.logical_or.accumulate(some, axis=0)])
    # 64 bits from the leading one on; the last one also stands for everything below, which decides between equals.
    shift = (_BITS - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
    shift = np.where(first == 0, np.uint64(0), shift)
    rest_bits = np.uint64(_BITS) - shift
    leading = (((first << np.uint64(_BITS)) | second) << shift) | (third >> rest_bits)
    rest = (third & ((np.uint64(1) << rest_bits) - np.uint64(1))) != 0
    leading |= (rest | below[top, column]).astype(np.uint64)
    exponent = _BITS * (top - 1) + lowest_bit - shift.astype(np.int64)
    with np.errstate(over="ignore"):
        totals: Doubles = np.ldexp(leading.astype(np.float64), exponent) * sign
    return totals


def _carry(digits: Numbers) -> None:
    """Brings all limbs but the last into 0 to 2^32 - 1."""
    for place in range(len(digits) - 1):
        digits[place + 1] += digits[place] >> _BITS
        digits[place] &= _MASK


def _greater(high: Numbers, low: Numbers, bound: int) -> Flags:
    """Where the 128-bit number is greater than a bound that is not negative."""
    bound_high, bound_low = np.int64(bound >> 64), np.uint64(bound & (1 << 64) - 1)
    greater: Flags = (high > bound_high) | ((high == bound_high) & (low.view(np.uint64) > bound_low))
    return greater
