"""What queries see in a database that is made up: its transactions are numbers in the order of their commits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class SeesUpTo:
    """Sees every transaction up to a number."""

    last: int

    def sees(self, transactions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return transactions <= self.last
