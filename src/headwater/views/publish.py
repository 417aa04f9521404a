"""The publish kernel: keeps the content of a view, and tells nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headwater.views.kernel import Part, Step, Tables
from headwater.views.zset import consolidate, empty


@dataclass(frozen=True, slots=True)
class Publish:
    """Changes of a view in; its state is its content, and needs no look at what was there before.

    `consolidated`: the changes come with every row once.
    """

    schema: pa.Schema
    consolidated: bool = False

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"rows": self.schema}

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        return {"rows": tuple(self.schema.names)}

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"content": Part(self.schema)}

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
        return Step({"content": rows if self.consolidated else consolidate(rows)}, empty(self.output, hashed=True))
