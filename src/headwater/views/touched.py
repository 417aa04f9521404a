"""The rows of the groups that a step touches, before it and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.views.identity import number_keys
from headwater.views.zset import changed, consolidate


@dataclass(frozen=True, slots=True)
class Touched:
    """What changes, consolidated, and all rows of the groups in which something does."""

    delta: pa.Table
    before: pa.Table
    after: pa.Table

    @classmethod
    def of(cls, rows: pa.Table, held: pa.Table, key: Sequence[str], kernel: str) -> Touched:
        """The groups of changes, out of all that is held of them and perhaps of others."""
        delta = consolidate(rows)
        numbers, held_numbers = number_keys([delta, held], [key, key])
        touched = int(numbers.max()) + 1 if len(numbers) else 0
        before = held.filter(pa.array(held_numbers < touched))
        return cls(delta, before, changed(before, delta, kernel))
