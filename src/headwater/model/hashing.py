"""A 64-bit hash per row that never changes: records keep their partition across versions, machines and widened types.

The hash of a row is a fold over its columns, in order. All arithmetic is modulo 2^64; `mix` is the finalizer of
splitmix64 (Steele, Lea, Flood 2014); the constants are below.

    row     = ROW;  for each column: row = mix(row * FOLD + value)
    value   = null                            NULL
              integer, boolean, integral      mix(n + NUMBER), n as 64-bit two's complement
              date, timestamp                 the same, n = microseconds since 1970-01-01 (rounded down)
              float                           mix(bits + FLOAT), bits of the IEEE double; every NaN is the quiet NaN
              decimal                         mix(mix(low + DECIMAL + scale) + high), the unscaled 128 bits in halves
              text, bytes up to 256           h = mix(length + BYTES);  for each 8 bytes: h = mix((h ^ word) * FOLD),
                                              little-endian, the last word filled up with zeros
              text, bytes above 256           mix(XXH3-64(bytes) + BYTES)

"Integral" makes equal numbers of different types hash alike: a double within 2^53 and a decimal within 64 bits that
have no fraction hash as that integer, and a decimal first loses the zeros at its end (1.50 is 1.5). -0.0 is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat
import xxhash

Hashes = npt.NDArray[np.uint64]

# The golden ratio's fraction and digits of pi: arbitrary, but pinned forever by the golden values in the tests.
_FOLD: Final = np.uint64(0x9E3779B97F4A7C15)
_ROW: Final = np.uint64(0x243F6A8885A308D3)
_NULL: Final = np.uint64(0x13198A2E03707344)
_NUMBER: Final = np.uint64(0xA4093822299F31D0)
_FLOAT: Final = np.uint64(0x082EFA98EC4E6C89)
_DECIMAL: Final = np.uint64(0x452821E638D01377)
_BYTES: Final = np.uint64(0xBE5466CF34E90C6C)

_LONG_BYTES = 256  # above it, one call of xxhash is cheaper than a numpy pass per 8 bytes
_BLOCK_ROWS = 1 << 15  # keeps the temporaries of a block in the CPU's cache
_MICROSECONDS_PER_DAY = 86_400_000_000
_EXACT_INTEGERS = 2.0**53


def hash_columns(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Hashes:
    """One hash per row over all columns, which have the same length.

    Equal for equal values, also after a widening that `check_evolution` allows. Not cryptographic: who chooses the keys
    can make them collide. Raises TypeError for nested types and ValueError for no or unequal columns.
    """
    if not columns:
        raise ValueError("There are no columns to hash.")
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"The columns to hash have different lengths: {[len(column) for column in columns]}.")
    rows = np.full(len(columns[0]), _ROW)
    for column in columns:
        at = 0
        for block in _blocks(column):
            part = rows[at : at + len(block)]
            part *= _FOLD
            part += _hash_block(block)
            _mix(part)
            at += len(block)
    return rows


def partition_of(hashes: Hashes, partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each hash: its upper half as a fraction of 2^32, times `partitions`, rounded down."""
    if not 1 <= partitions <= 2**31 - 1:
        raise ValueError(f"A topic has 1 to {2**31 - 1} partitions, not {partitions}.")
    return (((hashes >> np.uint64(32)) * np.uint64(partitions)) >> np.uint64(32)).astype(np.int32)


def _blocks(column: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for chunk in map(_decoded, chunks):
        for start in range(0, len(chunk), _BLOCK_ROWS):
            yield chunk.slice(start, _BLOCK_ROWS)


def _decoded(array: pa.Array) -> pa.Array:
    """The array in one of the layouts that a `_hash_*` function reads."""
    arrow = array.type
    if isinstance(array, pa.ExtensionArray):
        return _decoded(array.storage)
    if pat.is_dictionary(arrow):
        return _decoded(array.dictionary_decode())
    if pat.is_string_view(arrow) or pat.is_binary_view(arrow) or pat.is_fixed_size_binary(arrow):
        return array.cast(pa.large_binary() if not pat.is_string_view(arrow) else pa.large_string())
    if pat.is_float16(arrow):
        return array.cast(pa.float32())
    if pat.is_decimal(arrow) and arrow.bit_width < 128:
        return array.cast(pa.decimal128(arrow.precision, arrow.scale))
    return array


def _hash_block(array: pa.Array) -> Hashes:
    if pat.is_null(array.type):
        return np.full(len(array), _NULL)
    hashes = _hasher(array.type)(array)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _hasher(arrow: pa.DataType) -> Callable[[pa.Array], Hashes]:
    if pat.is_integer(arrow):
        return _hash_integers
    if pat.is_boolean(arrow):
        return _hash_booleans
    if pat.is_floating(arrow):
        return _hash_floats
    if pat.is_decimal128(arrow):
        return _hash_decimals
    if pat.is_date(arrow) or pat.is_timestamp(arrow):
        return _hash_times
    if pat.is_string(arrow) or pat.is_binary(arrow) or pat.is_large_string(arrow) or pat.is_large_binary(arrow):
        return _hash_bytes
    raise TypeError(f"{arrow} cannot be hashed: a key is made of numbers, text, bytes, booleans, dates and times.")


def _mix(hashes: Hashes) -> Hashes:
    """The finalizer of splitmix64, in place; a bijection."""
    shifted = hashes >> np.uint64(30)
    hashes ^= shifted
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    np.right_shift(hashes, np.uint64(27), out=shifted)
    hashes ^= shifted
    hashes *= np.uint64(0x94D049BB133111EB)
    np.right_shift(hashes, np.uint64(31), out=shifted)
    hashes ^= shifted
    return hashes


def _data(array: pa.Array, dtype: str) -> npt.NDArray[np.generic]:
    """The values of a fixed-width array, without copying; what stands where a null is, is arbitrary."""
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def _mix_numbers(numbers: npt.NDArray[np.int64]) -> Hashes:
    return _mix(numbers.view(np.uint64) + _NUMBER)


def _hash_integers(array: pa.Array) -> Hashes:
    sign = "u" if pat.is_unsigned_integer(array.type) else "i"
    return _mix_numbers(_data(array, f"<{sign}{array.type.bit_width // 8}").astype(np.int64))


def _hash_booleans(array: pa.Array) -> Hashes:
    return _hash_integers(array.cast(pa.int8()))


def _hash_times(array: pa.Array) -> Hashes:
    arrow = array.type
    values = _data(array, f"<i{arrow.bit_width // 8}").astype(np.int64)
    if pat.is_date32(arrow):
        return _mix_numbers(values * _MICROSECONDS_PER_DAY)
    unit = "ms" if pat.is_date64(arrow) else arrow.unit
    if unit == "ns":
        return _mix_numbers(values // 1000)
    return _mix_numbers(values * {"s": 1_000_000, "ms": 1000, "us": 1}[unit])


def _hash_floats(array: pa.Array) -> Hashes:
    values = _data(array, f"<f{array.type.bit_width // 8}").astype(np.float64)
    values[np.isnan(values)] = np.nan
    integral = (np.abs(values) <= _EXACT_INTEGERS) & (np.trunc(values) == values)
    numbers = np.where(integral, values, 0.0).astype(np.int64)
    return np.where(integral, _mix_numbers(numbers), _mix(values.view(np.uint64) + _FLOAT))


def _hash_decimals(array: pa.Array) -> Hashes:
    halves = np.frombuffer(array.buffers()[1], "<u8").reshape(-1, 2)[array.offset : array.offset + len(array)]
    low, high = halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.int64)
    scales = np.full(len(array), array.type.scale, np.int64)
    low, high, scales = _without_trailing_zeros(low, high, scales)
    integral = (scales == 0) & (high == low.view(np.int64) >> 63)
    fractions = _mix(_mix(low + _DECIMAL + scales.view(np.uint64)) + high.view(np.uint64))
    return np.where(integral, _mix_numbers(low.view(np.int64)), fractions)


def _without_trailing_zeros(
    low: Hashes, high: npt.NDArray[np.int64], scales: npt.NDArray[np.int64]
) -> tuple[Hashes, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same decimals with the smallest scale that holds each, but no negative one; changes the arrays."""
    rows = np.flatnonzero(scales > 0)
    while len(rows):
        quotient_low, quotient_high, exact = _divide_by_ten(low[rows], high[rows])
        rows = rows[exact]
        low[rows], high[rows] = quotient_low[exact], quotient_high[exact]
        scales[rows] -= 1
        rows = rows[scales[rows] > 0]
    return low, high, scales


def _divide_by_ten(
    low: Hashes, high: npt.NDArray[np.int64]
) -> tuple[Hashes, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """128-bit quotients, and whether there was no remainder (the quotient is of use only then)."""
    if np.array_equal(high, low.view(np.int64) >> 63):
        narrow = low.view(np.int64)
        quotient = narrow // 10
        return quotient.view(np.uint64), quotient >> 63, quotient * 10 == narrow
    negative = high < 0
    low, high_bits = _negated_where(negative, low, high.view(np.uint64))
    quotient_high, remainder = np.divmod(high_bits, np.uint64(10))
    upper, remainder = np.divmod((remainder << np.uint64(32)) | (low >> np.uint64(32)), np.uint64(10))
    lower, remainder = np.divmod((remainder << np.uint64(32)) | (low & np.uint64(0xFFFFFFFF)), np.uint64(10))
    low, high_bits = _negated_where(negative, (upper << np.uint64(32)) | lower, quotient_high)
    return low, high_bits.view(np.int64), remainder == 0


def _negated_where(mask: npt.NDArray[np.bool_], low: Hashes, high: Hashes) -> tuple[Hashes, Hashes]:
    carry = (low == 0).astype(np.uint64)
    return np.where(mask, ~low + np.uint64(1), low), np.where(mask, ~high + carry, high)


def _hash_bytes(array: pa.Array) -> Hashes:
    wide = pat.is_large_string(array.type) or pat.is_large_binary(array.type)
    offsets = np.frombuffer(array.buffers()[1], "<i8" if wide else "<i4")
    starts = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, last = int(starts[0]), int(starts[-1])
    starts -= first
    lengths = np.diff(starts)
    content = array.buffers()[2]
    data = content.slice(first, last - first) if content is not None else pa.py_buffer(b"")
    hashes = _mix(lengths.view(np.uint64) + _BYTES)
    _absorb_words(hashes, data, starts[:-1], lengths)
    for row in np.flatnonzero(lengths > _LONG_BYTES):
        hashes[row] = _hash_long(data, int(starts[row]), int(lengths[row]))
    return hashes


def _hash_long(data: pa.Buffer, start: int, length: int) -> np.uint64:
    digest = xxhash.xxh3_64_intdigest(data.slice(start, length))
    mixed: np.uint64 = _mix(np.array([digest], np.uint64) + _BYTES)[0]
    return mixed


def _absorb_words(
    hashes: Hashes, data: pa.Buffer, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> None:
    """Folds the bytes of each row that is not long into its hash, eight at a time, for all rows at once."""
    words = _unaligned_words(data)
    rows = np.flatnonzero((lengths > 0) & (lengths <= _LONG_BYTES))
    at, left = starts[rows], lengths[rows]
    folded = hashes[rows]
    while len(rows):
        word = words[at]
        word &= _TAIL_MASKS[np.minimum(left, 8)]
        folded ^= word
        folded *= _FOLD
        _mix(folded)
        going_on = left > 8
        if not going_on.all():
            hashes[rows[~going_on]] = folded[~going_on]
            rows, at, left, folded = rows[going_on], at[going_on], left[going_on], folded[going_on]
        at += 8
        left -= 8


_TAIL_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


def _unaligned_words(data: pa.Buffer) -> Hashes:
    """For each byte of the data the eight bytes that start there, as a little-endian number: a view, not a copy."""
    padded = np.zeros(data.size + 8, np.uint8)
    padded[: data.size] = np.frombuffer(data, np.uint8)
    return np.lib.stride_tricks.as_strided(padded[:8].view("<u8"), (data.size + 1,), (1,))
