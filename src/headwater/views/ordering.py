"""The order of values, as Spark has it: numbers that are less, equal or greater as the values of a column are.

NaN is greater than every other number, -0.0 equals 0.0, false is less than true, strings and binaries are compared byte
by byte, lists and structs element by element with null first, and a list that ends is less than a longer one. Maps
have no order in SQL; here they are compared as lists of their entries, so that every row has its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.views.identity import Numbers, elements, groupable, normal, validity

_SIGN_LESS = {8: np.int64(0x7FFFFFFFFFFFFFFF), 4: np.int32(0x7FFFFFFF)}


@dataclass(frozen=True, slots=True)
class Order:
    """A column to order by."""

    column: str
    descending: bool
    nulls_first: bool


def stated_order(rows: pa.Table, orders: Sequence[Order]) -> list[Numbers]:
    """The numbers that put rows in an order, the most significant first."""
    numbers = []
    for order in orders:
        column = rows[order.column]
        rank = ranks(column)
        # A null is less than all others, so it comes first anyway if the order ascends.
        if column.null_count and order.nulls_first == order.descending:
            valid = validity(column).astype(np.int64)
            numbers.append(valid if order.nulls_first else 1 - valid)
        numbers.append(~rank if order.descending else rank)
    return numbers


def whole_order(rows: pa.Table, columns: Sequence[str]) -> list[Numbers]:
    """The numbers that decide between rows that a stated order leaves equal: all columns, ascending."""
    return [ranks(rows[name], zeros_apart=True) for name in columns]


def run_starts(keys: Sequence[Numbers]) -> npt.NDArray[np.bool_]:
    """Where something else begins in sorted rows."""
    starts = np.zeros(len(keys[0]), dtype=bool)
    starts[:1] = True
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return starts


def weights_before(weights: Numbers, starts: npt.NDArray[np.bool_]) -> Numbers:
    """The sum of the weights before each row, from the start of its run on."""
    begins: Numbers = np.cumsum(weights) - weights
    since: Numbers = begins - begins[starts][np.cumsum(starts) - 1]
    return since


def ranks(column: pa.ChunkedArray, *, zeros_apart: bool = False) -> Numbers:
    """A number for each value, ordered as the values are; that of a null is less than all others.

    `zeros_apart` puts -0.0 before 0.0 instead of next to it.
    """
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    plain = array if zeros_apart else normal(pa.chunked_array([array])).chunk(0)
    numbers = _ranks(plain)
    if array.null_count:
        valid = validity(array)
        if numbers.min() == np.iinfo(np.int64).min:
            numbers = np.unique(numbers, return_inverse=True)[1]
        numbers = np.where(valid, numbers, numbers.min() - 1)
    return numbers


def sorted_places(keys: Sequence[Numbers]) -> Numbers:
    """The places of rows in the order of these keys, the most significant first; that of equal rows is not promised."""
    packed, used = _packed(keys)
    # Sorting by one number is several times as fast as sorting by two.
    order = np.argsort(packed)
    if used == len(keys):
        return order
    ordered = packed[order]
    again = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.append(again, False) | np.append(False, again))
    if len(tied):
        places = order[tied]
        others = tuple(key[places] for key in reversed(keys[used:]))
        order[tied] = places[np.lexsort((*others, ordered[tied]))]
    return order


def _packed(keys: Sequence[Numbers]) -> tuple[Numbers, int]:
    """One number in the place of the first keys, as many as fit into it, and how many these are."""
    packed, size = np.zeros(len(keys[0]), dtype=np.int64), 1
    for used, key in enumerate(keys if len(packed) else ()):
        low = int(key.min())
        span = int(key.max()) - low + 1
        size *= span
        if size >= 1 << 63:
            return (packed, used) if used else (key, 1)
        packed = packed * span + (key - low)
    return packed, len(keys)


def sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floating-point numbers as whole numbers in the same order, -0.0 before 0.0."""
    kind = pa.int64() if pat.is_float64(column.type) else pa.int32()
    return pa.chunked_array([_turned(chunk, kind) for chunk in groupable(column).chunks], kind)


def unsortable(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """What `sortable` was made of."""
    return pa.chunked_array([_turned(chunk, chunk.type).view(kind) for chunk in column.chunks], kind)


def _turned(bits: pa.Array, kind: pa.DataType) -> pa.Array:
    """Of negative numbers all bits but the sign are turned over; doing it twice changes nothing."""
    negative = pc.less(bits, pa.scalar(0, kind))
    return pc.if_else(negative, pc.bit_wise_xor(bits, pa.scalar(_SIGN_LESS[kind.bit_width // 8], kind)), bits)


def _ranks(array: pa.Array) -> Numbers:
    """Numbers in the order of the values; those of nulls mean nothing."""
    kind = array.type
    if pat.is_floating(kind):
        array = sortable(pa.chunked_array([array])).combine_chunks()
    elif pat.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pat.is_temporal(kind):
        array = array.view(pa.int32() if pat.is_date32(kind) else pa.int64())
    if pat.is_integer(array.type):
        numbers: Numbers = array.fill_null(0).to_numpy().astype(np.int64)
        return numbers
    if pat.is_nested(kind):
        return _nested_ranks(array)
    encoded = array.dictionary_encode()
    places = np.empty(len(encoded.dictionary), dtype=np.int64)
    places[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(places))
    return places[encoded.indices.fill_null(0).to_numpy()] if len(places) else np.zeros(len(array), dtype=np.int64)


def _nested_ranks(array: pa.Array) -> Numbers:
    keys: list[Any]
    if pat.is_struct(array.type):
        children = [ranks(pa.chunked_array([child]), zeros_apart=True) for child in array.flatten()]
        keys = list(zip(*(child.tolist() for child in children), strict=True)) if children else [()] * len(array)
    else:
        lengths, values = elements(array)
        numbers = ranks(pa.chunked_array([values]), zeros_apart=True).tolist()
        ends = np.cumsum(lengths).tolist()
        keys = [tuple(numbers[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]
    places = {key: place for place, key in enumerate(sorted(set(keys)))}
    return np.array([places[key] for key in keys], dtype=np.int64)
