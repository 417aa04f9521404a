"""The hash that places records: pinned for ever, and blind to how a value happens to be stored."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.model.hashing import hash_columns, partition_of
from tests.unit.model.strategies import PLAIN_TYPES, optional

MASK = 2**64 - 1
ROW = 0x243F6A8885A308D3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT = Context(prec=100)
NAN_BITS = (0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001)


def hashes(values: list[object], arrow: pa.DataType | None = None) -> list[int]:
    return [int(value) for value in hash_columns([pa.array(values, arrow)])]


def mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def fold(row: int, value: int) -> int:
    return mix((row * 0x9E3779B97F4A7C15 + value) & MASK)


def hash_of_integer(number: int) -> int:
    return mix((number + 0xA4093822299F31D0) & MASK)


def hash_of_float(number: float) -> int:
    if number.is_integer() and abs(number) <= 2**53:
        return hash_of_integer(int(number))
    bits = struct.unpack("<Q", struct.pack("<d", number))[0] if number == number else 0x7FF8000000000000  # noqa: PLR0124
    return mix((bits + 0x082EFA98EC4E6C89) & MASK)


def hash_of_decimal(number: Decimal) -> int:
    unscaled, scale = int(number.scaleb(38, EXACT)), 38
    while scale > 0 and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    if scale == 0 and -(2**63) <= unscaled < 2**63:
        return hash_of_integer(unscaled)
    low, high = unscaled & MASK, (unscaled >> 64) & MASK
    return mix((mix((low + 0x452821E638D01377 + scale) & MASK) + high) & MASK)


def hash_of_bytes(data: bytes) -> int:
    if len(data) > 256:
        return mix((xxhash.xxh3_64_intdigest(data) + 0xBE5466CF34E90C6C) & MASK)
    hashed = mix((len(data) + 0xBE5466CF34E90C6C) & MASK)
    for at in range(0, len(data), 8):
        word = int.from_bytes(data[at : at + 8], "little")
        hashed = mix(((hashed ^ word) * 0x9E3779B97F4A7C15) & MASK)
    return hashed


def hash_of_value(value: object) -> int:
    """The definition in the module's docstring, one value at a time."""
    match value:
        case None:
            return 0x13198A2E03707344
        case bool() | int():
            return hash_of_integer(int(value))
        case float():
            return hash_of_float(value)
        case Decimal():
            return hash_of_decimal(value)
        case datetime():
            return hash_of_integer((value.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1))
        case date():
            return hash_of_integer((value - EPOCH.date()).days * 86_400_000_000)
        case str():
            return hash_of_bytes(value.encode())
        case bytes():
            return hash_of_bytes(value)
    raise AssertionError(value)


# These numbers may never change: records on disk were placed by them.
GOLDEN: list[tuple[object, pa.DataType, int]] = [
    (None, pa.int64(), 0xA68FAC29A569EB0C),
    (0, pa.int64(), 0xBC3607E2CAA22ADF),
    (1, pa.int64(), 0xB023DF239D55FC24),
    (-1, pa.int64(), 0xFA3AD54B81CAE589),
    (2**63 - 1, pa.int64(), 0x2FDADDD12193A1D9),
    (True, pa.bool_(), 0xB023DF239D55FC24),
    (0.5, pa.float64(), 0xF3BCAD8A5F5BC5EF),
    (float("nan"), pa.float64(), 0xE8DEC39A88C7BDA7),
    (float("-inf"), pa.float64(), 0x40AF47906C49C93D),
    (1e300, pa.float64(), 0x7D30155B7D3EF290),
    (Decimal("1.5"), pa.decimal128(10, 2), 0xC6D2DFF1856D249E),
    (Decimal("-0.01"), pa.decimal128(38, 2), 0x9A230D102F665B69),
    (Decimal(12345678901234567890123456789012345678), pa.decimal128(38, 0), 0x297C0B46DC0C4B1F),
    (Decimal("-1234567890123456789012345678.5"), pa.decimal128(38, 1), 0x6A133EAC03DB93F9),
    (date(2024, 2, 29), pa.date32(), 0x52B596BADE404568),
    (datetime(2024, 2, 29, 12, 30, 0, 1, UTC), pa.timestamp("us", "UTC"), 0xE0E1C8C07E3C8A6A),
    ("", pa.string(), 0x59A484B44C8862CB),
    ("a", pa.string(), 0x74F21FF31E95F202),
    ("customer-001", pa.string(), 0x7A1975C1FD9AB84F),
    ("grün", pa.string(), 0x0493538BEF6B87AB),
    ("x" * 256, pa.string(), 0x9437ADC4E2962618),
    ("x" * 257, pa.string(), 0x1B498AB3A7B9B386),
    (b"\x00", pa.binary(), 0x44210FED6FA913A8),
]


@pytest.mark.parametrize(("value", "arrow", "golden"), GOLDEN, ids=lambda part: str(part)[:30])
def test_the_hash_of_a_value_never_changes(value: object, arrow: pa.DataType, golden: int) -> None:
    assert hashes([value], arrow) == [golden]


def test_the_hash_of_a_row_never_changes() -> None:
    columns = [pa.array([7, None]), pa.array(["a", "b"]), pa.array([None, 1.5])]
    assert [int(value) for value in hash_columns(columns)] == [0x4A698DFC56C9C5AD, 0x45B98761E1B28E41]


@given(st.data())
def test_every_value_follows_the_definition(data: st.DataObject) -> None:
    arrow = data.draw(PLAIN_TYPES)
    values = data.draw(st.lists(optional(arrow), max_size=5))
    assert hashes(values, arrow) == [fold(ROW, hash_of_value(value)) for value in values]


@given(st.lists(st.binary(max_size=40) | st.binary(min_size=250, max_size=260), max_size=5))
def test_long_bytes_follow_the_definition(values: list[object]) -> None:
    assert hashes(values, pa.binary()) == [fold(ROW, hash_of_value(value)) for value in values]


def test_columns_are_folded_in_order() -> None:
    one, two = pa.array([1]), pa.array([2])
    expected = fold(fold(ROW, hash_of_integer(1)), hash_of_integer(2))
    assert int(hash_columns([one, two])[0]) == expected
    assert int(hash_columns([two, one])[0]) != expected


@given(st.data())
def test_a_row_has_the_same_hash_alone_and_in_any_batch(data: st.DataObject) -> None:
    types = data.draw(st.lists(PLAIN_TYPES, min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*map(optional, types)), min_size=1, max_size=6))
    columns = [pa.array([row[at] for row in rows], arrow) for at, arrow in enumerate(types)]
    together = hash_columns(columns)
    cut = data.draw(st.integers(0, len(rows)))
    chunked = [pa.chunked_array([column[:cut], column[cut:]]) for column in columns]
    assert hash_columns(chunked).tolist() == together.tolist()
    assert hash_columns([column[cut:] for column in columns]).tolist() == together[cut:].tolist()
    for at, row in enumerate(rows):
        alone = [pa.array([value], arrow) for value, arrow in zip(row, types, strict=True)]
        assert hash_columns(alone)[0] == together[at]


@given(st.integers(-128, 127))
def test_a_number_has_one_hash_in_every_type_that_it_can_be_widened_to(number: int) -> None:
    types = [
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.float16(),
        pa.decimal128(3, 0), pa.decimal128(10, 5), pa.decimal128(38, 30), pa.decimal64(10, 2),
    ]  # fmt: skip
    assert len({hashes([number], pa.int8()).pop()} | {_cast_hash(number, arrow) for arrow in types}) == 1


def _cast_hash(number: int, arrow: pa.DataType) -> int:
    return int(hash_columns([pa.array([number], pa.int8()).cast(arrow, safe=False)])[0])


@given(st.integers(-(2**31), 2**31 - 1))
def test_an_int_has_the_hash_of_the_double_and_the_decimal(number: int) -> None:
    array = pa.array([number], pa.int32())
    expected = hash_columns([array])
    assert hash_columns([array.cast(pa.float64())]) == expected
    assert hash_columns([array.cast(pa.decimal128(38, 28))]) == expected


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_bigint_has_the_hash_of_the_decimal(number: int) -> None:
    array = pa.array([number], pa.int64())
    assert hash_columns([array.cast(pa.decimal128(38, 19))]) == hash_columns([array])


@given(st.integers(1 - 10**20, 10**20 - 1), st.integers(0, 10), st.integers(0, 8))
@example(0, 3, 2)
@example(-(2**63), 0, 8)
@example(-(2**64), 1, 1)
@example(2**63, 0, 1)
def test_a_decimal_has_one_hash_in_every_scale(unscaled: int, scale: int, more: int) -> None:
    number = Decimal(unscaled).scaleb(-scale)
    narrow = pa.array([number], pa.decimal128(20 + 1, scale))
    wide = narrow.cast(pa.decimal128(21 + more, scale + more))
    assert hash_columns([narrow]) == hash_columns([wide])
    assert hash_columns([pa.concat_arrays([wide, wide])]).tolist() == hash_columns([narrow]).tolist() * 2


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30)))
def test_decimals_that_differ_have_different_hashes(numbers: list[object]) -> None:
    assert len(set(hashes(numbers, pa.decimal128(38, 4)))) == len(set(numbers))


@given(st.floats(width=32))
def test_a_float_has_the_hash_of_the_double(number: float) -> None:
    assert hashes([number], pa.float32()) == hashes([number], pa.float64())


@given(st.lists(st.floats(allow_nan=False), unique=True))
def test_doubles_that_differ_have_different_hashes(numbers: list[object]) -> None:
    assert len(set(hashes(numbers, pa.float64()))) == len(numbers)


def test_zero_has_no_sign_and_every_nan_is_the_same() -> None:
    assert hashes([-0.0], pa.float64()) == hashes([0], pa.int8())
    nans = np.array(NAN_BITS, np.uint64).view(np.float64)
    assert set(hash_columns([pa.array(nans, from_pandas=False)]).tolist()) == set(hashes([float("nan")]))


def test_large_doubles_are_not_taken_for_integers() -> None:
    values: list[object] = [2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, 1e300]
    assert len(set(hashes(values, pa.float64()))) == len(values)
    assert hashes([2.0**53], pa.float64()) == hashes([2**53], pa.int64())


@given(st.dates())
def test_a_date_has_the_hash_of_its_midnight(day: date) -> None:
    array = pa.array([day])
    expected = hash_columns([array])
    assert hash_columns([array.cast(pa.date64())]) == expected
    for unit in ("s", "ms", "us"):
        assert hash_columns([array.cast(pa.timestamp(unit))]) == expected


def test_a_timestamp_is_its_instant() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
    expected = hashes([moment], pa.timestamp("us", "UTC"))
    assert hashes([moment], pa.timestamp("us", "Asia/Tokyo")) == expected
    assert hashes([moment], pa.timestamp("ns", "UTC")) == expected
    assert hashes([-1], pa.int64()) == expected


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_text_has_one_hash_however_it_is_stored(texts: list[object]) -> None:
    array = pa.array(texts, pa.string())
    expected = hash_columns([array]).tolist()
    for arrow in (pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()):
        assert hash_columns([array.cast(arrow)]).tolist() == expected
    assert hash_columns([array.dictionary_encode()]).tolist() == expected


def test_fixed_size_bytes_and_extensions_hash_as_their_bytes() -> None:
    data = bytes(range(16))
    expected = hashes([data], pa.binary())
    assert hashes([data], pa.binary(16)) == expected
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([data], pa.binary(16)))
    assert hash_columns([uuids]).tolist() == expected


@given(st.lists(st.binary(max_size=20) | st.binary(min_size=250, max_size=300), unique=True))
def test_bytes_that_differ_have_different_hashes(values: list[object]) -> None:
    assert len(set(hashes(values, pa.binary()))) == len(values)


def test_zeros_at_the_end_count() -> None:
    assert len(set(hashes([b"", b"\0", b"\0" * 8, b"\0" * 9, None], pa.binary()))) == 5


def test_a_null_is_a_null_in_every_type() -> None:
    types = [pa.int8(), pa.string(), pa.float64(), pa.decimal128(5, 2), pa.bool_(), pa.date32(), pa.null()]
    assert len({hashes([None], arrow).pop() for arrow in types}) == 1


def test_what_lies_under_a_null_does_not_count() -> None:
    masked = pa.array(np.array([1, 2, 3]), mask=np.array([False, True, False]))
    assert hash_columns([masked]).tolist() == hashes([1, None, 3])


def test_blocks_do_not_show() -> None:
    numbers = np.arange(100_000)
    texts = pa.array([f"key-{number}" for number in numbers])
    together = hash_columns([pa.array(numbers), texts])
    for at in (0, 32_767, 32_768, 99_999):
        assert hash_columns([pa.array(numbers[at : at + 1]), texts[at : at + 1]])[0] == together[at]


@pytest.mark.parametrize("arrow", [pa.int64(), pa.string(), pa.decimal128(5, 2), pa.float64(), pa.bool_(), pa.null()])
def test_no_rows_have_no_hashes(arrow: pa.DataType) -> None:
    assert hash_columns([pa.array([], arrow)]).tolist() == []
    assert hash_columns([pa.chunked_array([], arrow)]).dtype == np.uint64


@pytest.mark.parametrize("arrow", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.duration("s")], ids=str)
def test_types_that_are_no_keys_are_refused(arrow: pa.DataType) -> None:
    with pytest.raises(TypeError, match="cannot be hashed"):
        hash_columns([pa.nulls(1, arrow)])


def test_columns_must_be_there_and_equally_long() -> None:
    with pytest.raises(ValueError, match="no columns"):
        hash_columns([])
    with pytest.raises(ValueError, match="different lengths"):
        hash_columns([pa.array([1]), pa.array([1, 2])])


def test_the_partition_of_a_hash_never_changes() -> None:
    given_hashes = np.array([0, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    assert partition_of(given_hashes, 1).tolist() == [0, 0, 0, 0, 0, 0]
    assert partition_of(given_hashes, 3).tolist() == [0, 0, 0, 1, 1, 2]
    assert partition_of(given_hashes, 2**31 - 1).tolist() == [0, 0, 0, 1073741823, 1073741823, 2147483646]
    assert partition_of(given_hashes, 3).dtype == np.int32


@pytest.mark.parametrize("partitions", [0, -1, 2**31])
def test_a_number_of_partitions_that_can_not_be_is_refused(partitions: int) -> None:
    with pytest.raises(ValueError, match="partitions"):
        partition_of(np.zeros(1, np.uint64), partitions)


@pytest.mark.parametrize("partitions", [2, 3, 16, 100])
def test_keys_that_follow_each_other_spread_evenly(partitions: int) -> None:
    for column in (pa.array(range(100_000)), pa.array([f"user-{number}" for number in range(100_000)])):
        counts = np.bincount(partition_of(hash_columns([column]), partitions), minlength=partitions)
        assert abs(counts / (100_000 / partitions) - 1).max() < 0.15
