"""State that lies in time order, as a kernel looks it up: stretches of a key's time, and how far its neighbors are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.blobs import Blobs
from headwater.engine.runs import Hashes, Run, between, open_run
from headwater.views.kernel import Part
from headwater.views.time_order import first_of_key, joined, last_of_key
from headwater.views.zset import consolidate


@dataclass(frozen=True, slots=True)
class TimeOrdered:
    """The parts of an operator's state in time order (`views.kernel.Held`); `schemas` are those of their runs."""

    blobs: Blobs
    parts: Mapping[str, Part]
    schemas: Mapping[str, pa.Schema]
    runs: Mapping[str, Sequence[Run]]

    def between(self, part: str, firsts: Hashes, lasts: Hashes) -> pa.Table:
        rows = between(self.blobs, self.runs[part], *joined(firsts, lasts), self.schemas[part]).combine_chunks()
        return consolidate(rows, self.parts[part].measures)

    def back(self, part: str, hashes: Hashes, count: int) -> Hashes:
        ends = reached = first_of_key(hashes)
        for lying in self._near(part, hashes):
            places = np.searchsorted(lying, hashes, "left") - count
            # A place before the first row means that none is left out.
            there = np.where(places >= 0, lying[np.maximum(places, 0)], ends)
            reached = np.maximum(reached, there)
        return reached

    def ahead(self, part: str, hashes: Hashes, count: int) -> Hashes:
        ends = reached = last_of_key(hashes)
        for lying in self._near(part, hashes):
            places = np.searchsorted(lying, hashes, "right") + count - 1
            there = np.where(places < len(lying), lying[np.minimum(places, len(lying) - 1)], ends)
            reached = np.minimum(reached, there)
        return reached

    def _near(self, part: str, hashes: Hashes) -> Iterator[Hashes]:
        """The hashes of the runs in which rows of these keys may lie."""
        firsts, lasts = first_of_key(hashes), last_of_key(hashes)
        for run in self.runs[part]:
            if ((firsts <= run.high) & (lasts >= run.low)).any():
                opened = open_run(self.blobs, run)
                start, stop = opened.bounds(run.low, run.high)
                if stop > start:
                    yield opened.hashes[start:stop]
