"""The publish kernel: keeps the content of a view, and tells nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.frontier import Frontier
from headwater.views.kernel import Kernel, Part, Step, Tables
from headwater.views.placing import hashes_of_keys
from headwater.views.zset import HASH, WEIGHT, add, added_up, consolidate, empty, nonnegative


@dataclass(frozen=True, slots=True)
class Publish(Kernel):
    """Changes of a view in; its state is its content. A row that the content does not hold cannot be retracted."""

    schema: pa.Schema

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"rows": self.schema}

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        return {"rows": tuple(self.schema.names)}

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"content": Part(self.schema, adds_up=True, retracted=True)}

    @property
    def output(self) -> pa.Schema:
        return pa.schema([])

    @property
    def hashed_by(self) -> tuple[str, ...] | None:
        return None

    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        rows = changes["rows"]
        retracted = rows.filter(pc.less(rows[WEIGHT], 0))
        if retracted.num_rows:
            _check(add(old["content"], retracted))
        return Step({"content": rows}, empty(self.output, hashed=True))


def _check(content: pa.Table) -> None:
    """Raises `InternalError` if a row is there less than zero times."""
    columns = [name for name in content.column_names if name not in (HASH, WEIGHT)]
    content = content.combine_chunks()
    hashes = hashes_of_keys(content, columns or [HASH])
    found = added_up(content, hashes, np.argsort(hashes), (WEIGHT,))
    # Putting the rows together costs more than to see that all is well.
    if found is None or (found[1][WEIGHT] < 0).any():
        nonnegative(consolidate(content), "publish")
