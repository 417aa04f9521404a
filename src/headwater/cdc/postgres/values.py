"""Values as PostgreSQL writes them, as Arrow columns: all at once where Arrow can read them, one by one where not.

The server's session has to write dates as ISO, times in UTC, bytes in hexadecimal and floats with all their digits;
`SESSION` says so. What a column cannot hold is null in it, and comes back as a `Special`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from headwater.cdc.postgres.arrays import parse_array

SESSION: Mapping[str, str] = {
    "datestyle": "ISO, YMD",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
}
"""Settings of a session whose text this module reads."""

Specials: TypeAlias = dict[int, str]
"""By row number, the text of values that their column cannot hold."""

_HEX_PREFIX = 2
_NIBBLES = np.zeros(256, np.uint8)
_NIBBLES[list(b"0123456789abcdef")] = range(16)


def convert(texts: pa.Array, arrow: pa.DataType) -> tuple[pa.Array, Specials]:
    """The values that the texts stand for, and those that the type cannot hold."""
    if pat.is_string(arrow):
        return texts, {}
    if pat.is_list(arrow):
        return _arrays(texts, arrow)
    reader = _reader(arrow)
    try:
        return reader(texts, arrow), {}
    except (pa.ArrowInvalid, ValueError):
        return _one_by_one(texts, arrow, reader)


_Reader: TypeAlias = Callable[[pa.Array, pa.DataType], pa.Array]


def _reader(arrow: pa.DataType) -> _Reader:
    if pat.is_boolean(arrow):
        return _booleans
    if pat.is_binary(arrow):
        return _bytes
    return _zoned if pat.is_timestamp(arrow) and arrow.tz is not None else _cast


def _cast(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    return texts.cast(arrow)


def _zoned(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    # Arrow reads times without a zone twice as fast, and the session writes all of them in UTC.
    if pc.all(pc.ends_with(texts, "+00")).as_py() is False:
        raise ValueError("a time that is not in UTC")
    return pc.utf8_slice_codeunits(texts, 0, -3).cast(pa.timestamp("us")).cast(arrow)


def _booleans(texts: pa.Array, _: pa.DataType) -> pa.Array:
    return pc.equal(texts, "t")


def _bytes(texts: pa.Array, _: pa.DataType) -> pa.Array:
    r"""From `\x0a0b`, for all values at once."""
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    content = texts.fill_null("").cast(pa.binary())
    begin = content.buffers()[1]
    first = int(np.frombuffer(begin, np.int32)[content.offset]) if begin is not None else 0
    data = np.frombuffer(content.buffers()[2] or b"", np.uint8)[first : first + offsets[-1]]
    keep = np.ones(len(data), np.bool_)
    prefixes = offsets[:-1][lengths >= _HEX_PREFIX]
    for each in range(_HEX_PREFIX):
        keep[prefixes + each] = False
    nibbles = _NIBBLES[data[keep]]
    values = nibbles[0::2] << 4 | nibbles[1::2]
    ends = np.concatenate([[0], np.cumsum(np.maximum(lengths - _HEX_PREFIX, 0) // 2)]).astype(np.int32)
    validity = pa.py_buffer(np.packbits(texts.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    return pa.BinaryArray.from_buffers(pa.binary(), len(texts), [validity, pa.py_buffer(ends), pa.py_buffer(values)])


def _one_by_one(texts: pa.Array, arrow: pa.DataType, reader: _Reader) -> tuple[pa.Array, Specials]:
    """Reads each different text for itself; the slow way, for batches in which one cannot be read."""
    encoded = texts.dictionary_encode()
    known: list[pa.Array] = []
    refused: set[int] = set()
    for number, text in enumerate(encoded.dictionary):
        try:
            known.append(reader(pa.array([text.as_py()], pa.string()), arrow))
        except (pa.ArrowInvalid, ValueError):
            known.append(pa.nulls(1, arrow))
            refused.add(number)
    values = pa.concat_arrays(known).take(encoded.indices) if known else pa.nulls(len(texts), arrow)
    rows = np.flatnonzero(np.isin(pc.fill_null(encoded.indices, -1).to_numpy(), list(refused)))
    return values, {int(row): texts[int(row)].as_py() for row in rows}


def _arrays(texts: pa.Array, arrow: pa.DataType) -> tuple[pa.Array, Specials]:
    specials: Specials = {}
    offsets, elements, owners = [0], list[str | None](), list[int]()
    valid = np.ones(len(texts), np.bool_)
    for row, text in enumerate(texts.to_pylist()):
        parsed = None if text is None else parse_array(text)
        if parsed is None:
            valid[row] = False
            if text is not None:
                specials[row] = text
        else:
            elements += parsed
            owners += [row] * len(parsed)
        offsets.append(len(elements))
    values, refused = convert(pa.array(elements, pa.string()), arrow.value_type)
    for element in refused:
        row = owners[element]
        valid[row] = False
        specials[row] = texts[row].as_py()
    mask = None if valid.all() else pa.array(~valid)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=arrow, mask=mask), specials
