"""Which values are the same: Arrow columns turned into columns that can be grouped by, and into numbers of keys.

There are two notions of the same. A row *is* another one when retracting the one takes the other away: nulls are the
same, all NaN are, -0.0 and 0.0 are not. A key *equals* another one as in SQL's GROUP BY: -0.0 and 0.0 are one, too.
Both hold inside of lists, structs and maps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

Numbers = npt.NDArray[np.int64]

HASH = "_hash"


def identities(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Columns that are equal in two rows exactly when the named columns are the same, and that can be grouped by.

    Those of nested columns hold for this table only.
    """
    return _named([groupable(table[name]) for name in columns])


def number_keys(tables: Sequence[pa.Table], columns: Sequence[Sequence[str]]) -> list[Numbers]:
    """For each row of each table the number of its key, the same number for equal keys of all tables.

    `columns` names the key columns of each table; all have as many, of the same types. Numbers begin with 0 and are
    given in the order in which keys appear; so the keys of the first table have the lowest ones.
    """
    lengths = [table.num_rows for table in tables]
    keys = [groupable(normal(_appended(tables, names))) for names in zip(*columns, strict=True)]
    numbers = _numbers_by_hash(tables, keys) if len(keys) > 1 else None
    if numbers is None:
        numbers = np.zeros(sum(lengths), dtype=np.int64)
        for position, key in enumerate(keys):
            codes = _codes(key)
            # Of two columns each pair of codes gets a code of its own, and so on.
            pairs = numbers * (codes.max(initial=0) + 1) + codes
            numbers = _codes(pa.chunked_array([pairs])) if position else codes
    return np.split(numbers, np.cumsum(lengths)[:-1])


def normal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with 0.0 for -0.0 and with one NaN, as SQL shows the keys of groups."""
    if not holds_floats(column.type):
        return column
    return pa.chunked_array([_normal(chunk) for chunk in column.chunks], column.type)


def holds_floats(kind: pa.DataType) -> bool:
    """Whether floating-point numbers are of this type or inside of it."""
    if pat.is_map(kind):
        return holds_floats(kind.key_type) or holds_floats(kind.item_type)
    if pat.is_nested(kind):
        return any(holds_floats(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pat.is_floating(kind))


def groupable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that Arrow can group by, equal where the values are the same."""
    if pat.is_floating(column.type):
        bits = pa.int64() if pat.is_float64(column.type) else pa.int32()
        return pa.chunked_array([_one_nan(chunk).view(bits) for chunk in column.chunks], bits)
    if pat.is_nested(column.type):
        return pa.chunked_array([_bytes_of_nested(_whole(column))])
    return column


def same(left: pa.ChunkedArray, right: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Where two columns of equal length and type hold the same."""
    both = groupable(pa.chunked_array([*left.chunks, *right.chunks], left.type))
    return _equal(both.slice(0, len(left)), both.slice(len(left)))


def first_places(numbers: Numbers) -> Numbers:
    """Where each number occurs first, up to the largest one; numbers are from 0 on."""
    first = np.zeros(numbers.max(initial=-1) + 1, dtype=np.int64)
    # Where a number occurs several times, numpy keeps what is assigned last.
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return first


def elements(array: pa.Array) -> tuple[Numbers, pa.Array]:
    """The lengths of lists or maps (0 for nulls) and their elements or entries, one after the other."""
    values = _entries(array) if pat.is_map(array.type) else array.values
    if not len(array):
        # An array without values need not have any memory for where they begin.
        return np.zeros(0, dtype=np.int64), values.slice(0, 0)
    offsets = array.offsets.to_numpy().astype(np.int64)
    lengths = np.where(validity(array), np.diff(offsets), 0)
    first = np.repeat(offsets[:-1] - np.cumsum(lengths) + lengths, lengths)
    return lengths, values.take(pa.array(first + np.arange(len(first))))


def validity(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Where the values are not null."""
    valid: npt.NDArray[np.bool_] = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return valid


def _named(columns: list[pa.ChunkedArray]) -> pa.Table:
    return pa.table({f"_{number}": column for number, column in enumerate(columns)})


def _appended(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.ChunkedArray:
    """One column of each table, one after the other."""
    kind = tables[0][names[0]].type
    columns = [table[name] for table, name in zip(tables, names, strict=True)]
    cast = [column if column.type == kind else column.cast(kind) for column in columns]
    return pa.chunked_array([chunk for column in cast for chunk in column.chunks], kind)


def _numbers_by_hash(tables: Sequence[pa.Table], keys: Sequence[pa.ChunkedArray]) -> Numbers | None:
    """The numbers of hashes, if they tell all keys apart: for keys of several columns that takes half the time."""
    if not all(HASH in table.column_names for table in tables):
        return None
    numbers = _codes(_appended(tables, [HASH] * len(tables)))
    first = pa.array(first_places(numbers)[numbers])
    return numbers if all(_equal(key, key.take(first)).all() for key in keys) else None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _codes(column: pa.ChunkedArray) -> Numbers:
    """A number for each distinct value, null being one, in the order in which they appear."""
    if pat.is_integer(column.type) and len(column) and not column.null_count:
        values = column.to_numpy()
        lowest = values.min()
        span = int(values.max()) - int(lowest)
        # If there are fewer different ones, looking them up is as fast.
        if len(values) <= 16 * span < 32 * len(values):
            return _codes_of_range(values.astype(np.int64) - lowest.astype(np.int64))
    encoded = column.dictionary_encode(null_encoding="encode")
    indices = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    return np.concatenate(indices).astype(np.int64) if indices else np.zeros(0, dtype=np.int64)


def _codes_of_range(values: Numbers) -> Numbers:
    """As `_codes`, for small numbers from 0 on: without looking any of them up, in a fraction of the time."""
    places = first_places(values)[values]
    is_first = np.zeros(len(values), dtype=np.int64)
    is_first[places] = 1
    codes: Numbers = (np.cumsum(is_first) - 1)[places]
    return codes


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Where two columns that can be grouped by are equal; nulls are."""
    if pat.is_null(left.type):
        return np.ones(len(left), dtype=bool)
    equal = pc.fill_null(pc.equal(left, right), False)
    alike: npt.NDArray[np.bool_] = pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right))).to_numpy()
    return alike


def _normal(array: pa.Array) -> pa.Array:
    kind = array.type
    if not holds_floats(kind):
        return array
    if pat.is_floating(kind):
        zero = pa.scalar(0.0, kind)
        return pc.if_else(pc.equal(array, zero), zero, _one_nan(array))
    nulls = pc.is_null(array)
    if pat.is_struct(kind):
        return pa.StructArray.from_arrays([_normal(child) for child in array.flatten()], fields=list(kind), mask=nulls)
    lengths, values = elements(array)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    values = _normal(values)
    if pat.is_map(kind):
        keys, items = values.flatten()
        return pa.MapArray.from_arrays(offsets, keys, items, kind, mask=nulls)
    return pa.ListArray.from_arrays(offsets, values, kind, mask=nulls)


def _one_nan(array: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)


def _entries(array: pa.MapArray) -> pa.StructArray:
    return pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])


def _bytes_of_nested(array: pa.Array) -> pa.Array:
    """A list or struct as the bytes of the codes of what it holds."""
    if pat.is_struct(array.type):
        children = [_codes(groupable(pa.chunked_array([child]))) for child in array.flatten()]
        codes = np.stack(children, axis=1) if children else np.zeros((len(array), 0), dtype=np.int64)
        lengths = np.full(len(array), len(children), dtype=np.int64)
    else:
        lengths, values = elements(array)
        codes = _codes(groupable(pa.chunked_array([values])))
    offsets = np.concatenate([[0], np.cumsum(lengths * 8)]).astype(np.int64)
    valid = pc.is_valid(array)
    bitmap = None if array.null_count == 0 else pa.concat_arrays([valid]).buffers()[1]
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(codes))]
    return pa.Array.from_buffers(pa.large_binary(), len(array), buffers)
