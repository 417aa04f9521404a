"""Which transactions a query of PostgreSQL sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# The stream's numbers of transactions have 32 bits and go round; half of them are in the past.
_XIDS = 1 << 32


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which transactions a query sees: those before `end` that were not `running`."""

    end: int
    running: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Visibility:
        """What `pg_current_snapshot()` says: `10:20:10,14`."""
        _, end, running = text.split(":")
        return cls(int(end) % _XIDS, tuple(int(each) % _XIDS for each in running.split(",") if each))

    def sees(self, transactions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether it sees each of these transactions."""
        return ((transactions - self.end) % _XIDS >= _XIDS // 2) & ~np.isin(transactions, self.running)
