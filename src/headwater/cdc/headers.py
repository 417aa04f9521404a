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
"""The header with the texts of values that their columns can not hold, as JSON."""


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
    rows, width = len(numbers), len(names)
    letters, letter_of = np.unique(operations, return_inverse=True)
    texts = pa.array([*(chr(letter) for letter in letters), *(text for each in shared for text in each.values())])
    picks = np.empty((rows, width), np.int64)
    picks[:, 0] = letter_of
    picks[:, 1:] = len(letters) + numbers[:, None] * (width - 1) + np.arange(width - 1)
    keys = pa.array(names).take(pa.array(np.tile(np.arange(width), rows)))
    offsets = pa.array(np.arange(0, rows * width + 1, width, dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, keys, texts.take(pa.array(picks.ravel())))


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
