"""The headers of captured records, for many records at once: where in the source each comes from, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEADERS = pa.field("_headers", pa.map_(pa.string(), pa.string()))
OPERATION = "op"
SPECIAL = "special"
"""The header with the texts of values that their columns cannot hold, as JSON."""
# This many times a header's text is repeated in one array, whose places have 32 bits.
_REPEATED_MAX = 1 << 20


def header_column(
    shared: Sequence[Mapping[str, str]],
    numbers: npt.NDArray[np.int64],
    operations: npt.NDArray[np.uint8],
    specials: Sequence[tuple[int, str, str]] = (),
) -> pa.Array:
    """For each record the headers of its transaction, `shared[numbers[i]]`, and what was done, as one letter."""
    if specials or len({tuple(each) for each in shared}) > 1:
        return _one_by_one(shared, numbers, operations, specials)
    names = [OPERATION, *shared[0]] if shared else [OPERATION]
    if len(shared) == 1 and 0 < len(operations) < _REPEATED_MAX and (operations == operations[0]).all():
        return _repeated({OPERATION: chr(operations[0]), **shared[0]}, len(operations))
    rows, width = len(numbers), len(names)
    letters, letter_of = np.unique(operations, return_inverse=True)
    values = [*(chr(letter) for letter in letters), *(text for each in shared for text in each.values())]
    texts = pa.array(values, pa.string())
    picks = np.empty((rows, width), np.int64)
    picks[:, 0] = letter_of
    picks[:, 1:] = len(letters) + numbers[:, None] * (width - 1) + np.arange(width - 1)
    keys = pa.array(names).take(pa.array(np.tile(np.arange(width), rows)))
    offsets = pa.array(np.arange(0, rows * width + 1, width, dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, keys, texts.take(pa.array(picks.ravel())))


def _repeated(headers: Mapping[str, str], rows: int) -> pa.Array:
    """The same headers for every record."""
    offsets = pa.array(np.arange(0, rows * len(headers) + 1, len(headers), dtype=np.int32))
    keys, values = (_texts(list(each), rows) for each in (headers.keys(), headers.values()))
    return pa.MapArray.from_arrays(offsets, keys, values)


def _texts(texts: Sequence[str], times: int) -> pa.Array:
    """Some texts, again and again."""
    content = [text.encode() for text in texts]
    ends = np.cumsum([len(each) for each in content], dtype=np.int32)
    offsets = np.zeros(len(texts) * times + 1, np.int32)
    firsts = np.arange(times, dtype=np.int32) * ends[-1]
    np.add(firsts[:, None], ends, out=offsets[1:].reshape(times, len(texts)))
    return pa.StringArray.from_buffers(
        len(texts) * times, pa.py_buffer(offsets), pa.py_buffer(b"".join(content) * times)
    )


def _one_by_one(
    shared: Sequence[Mapping[str, str]],
    numbers: npt.NDArray[np.int64],
    operations: npt.NDArray[np.uint8],
    specials: Sequence[tuple[int, str, str]],
) -> pa.Array:
    extra: dict[int, dict[str, str]] = {}
    for row, column, text in specials:
        extra.setdefault(row, {})[column] = text
    found = []
    for row, (number, operation) in enumerate(zip(numbers.tolist(), operations.tolist(), strict=True)):
        headers = {OPERATION: chr(operation), **shared[number]}
        if row in extra:
            headers[SPECIAL] = json.dumps(extra[row], ensure_ascii=False)
        found.append(list(headers.items()))
    return pa.array(found, HEADERS.type)
