"""Rows as pgoutput sends them, read column by column for many rows at once.

tuple = number of columns (2 bytes) | column …
column = 'n' (null) | 'u' (unchanged TOAST: the value was not sent) | 't' length (4 bytes) text
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.postgres.stretch import Bytes, Positions, read_integers

_NULL, _UNCHANGED = ord("n"), ord("u")


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of many rows: where each value's text lies in the data."""

    data: Bytes
    present: npt.NDArray[np.bool_]
    unchanged: npt.NDArray[np.bool_]
    starts: Positions
    lengths: Positions

    def texts(self) -> pa.Array:
        """The values as Arrow text, null where there is none. Raises `pa.ArrowInvalid` for what is not UTF-8."""
        offsets = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        source = np.repeat(self.starts - offsets[:-1], self.lengths)
        source += np.arange(offsets[-1])
        validity = None if self.present.all() else pa.py_buffer(np.packbits(self.present, bitorder="little"))
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(self.data[source])]
        texts = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self.lengths), buffers)
        return texts.cast(pa.large_string()).cast(pa.string())


def read_tuples(data: Bytes, at: Positions, columns: int) -> tuple[list[Cells], Positions]:
    """The columns of the tuples that begin at these places, and where each tuple ends."""
    at = at + 2
    cells: list[Cells] = []
    for _ in range(columns):
        kinds = data[at]
        unchanged = kinds == _UNCHANGED
        present = ~(unchanged | (kinds == _NULL))
        lengths = np.where(present, read_integers(data, at + 1), 0)
        cells.append(Cells(data, present, unchanged, at + 5, lengths))
        at = at + 1 + np.where(present, lengths + 4, 0)
    return cells, at
