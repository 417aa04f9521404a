"""The publish kernel: keeps the content of a view, and tells nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.kernel import Part, Step, Tables
from headwater.views.zset import WEIGHT, add, consolidate, empty, nonnegative


@dataclass(frozen=True, slots=True)
class Publish:
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
        return {"content": Part(self.schema, retracted=True)}

    @property
    def output(self) -> pa.Schema:
        return pa.schema([])

    @property
    def hashed_by(self) -> tuple[str, ...] | None:
        return None

    @property
    def consolidated(self) -> bool:
        return True

    def step(self, old: Tables, changes: Tables, *, first: bool = False) -> Step:
        rows = changes["rows"]
        retracted = rows.filter(pc.less(rows[WEIGHT], 0))
        if retracted.num_rows:
            nonnegative(consolidate(add(old["content"], retracted)), "publish")
        return Step({"content": rows}, empty(self.output, hashed=True))
