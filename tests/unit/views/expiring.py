"""A kernel that acts on time alone: rows are kept until the frontier passes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.frontier import Frontier
from headwater.views.kernel import Due, KeyedKernel, Part, Step, Tables
from headwater.views.zset import HASH, WEIGHT, add, consolidate, negate


@dataclass(frozen=True, slots=True)
class Expiring(KeyedKernel):
    """Rows in, and out again until the moment in their column `until` has come by `clock`; then they are retracted.

    What comes too late is not kept, and was never there.
    """

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"rows": Part(self.schema, due=Due("clock", "until"))}

    @property
    def time_sources(self) -> Collection[str]:
        return ("clock",)

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        columns = [HASH, *self.schema.names, WEIGHT]
        given, held = changes["rows"].select(columns), old["rows"].select(columns)
        delta = consolidate(add(_where(given, frontier, come=False), negate(_where(held, frontier, come=True))))
        return Step({"rows": delta}, delta)


def _where(rows: pa.Table, frontier: Frontier, *, come: bool) -> pa.Table:
    """The rows whose moment has come, or those whose moment has not."""
    if "clock" not in frontier:
        return rows.slice(0, 0) if come else rows
    compare = pc.less_equal if come else pc.greater
    return rows.filter(compare(rows["until"], pa.scalar(frontier["clock"], rows.schema.field("until").type)))
