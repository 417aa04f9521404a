"""Brings versions of a view to a target by hand, without a feed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.connectors.lake.table import Version
from headwater.connectors.lake.target import LakeTarget
from headwater.engine.sinks.keyed import net_of
from headwater.engine.sinks.port import Mark
from headwater.engine.sinks.target import Assignment, Delivery
from headwater.views.zset import WEIGHT, consolidate, negate, with_weights
from tests.unit.engine.samples import at


class Bringer:
    """A sink of a view, which is given as a whole each time; rows that are there several times count."""

    def __init__(self, target: LakeTarget, key: Sequence[str] = (), *, sink: str = "out") -> None:
        self.target, self.key, self.number = target, tuple(key), 0
        self.refused: list[tuple[dict[str, object], str]] = []
        self.assignment = Assignment("shop", sink, "v", self.key, self._refuse)
        self.held: pa.Table | None = None
        self.stamp = target.open(self.assignment)

    def bring(self, rows: pa.Table) -> Delivery:
        """Makes the target hold the rows: as content at first, and by what changed after that."""
        delivery = self.delivery(rows)
        self.target.deliver(delivery)
        self.held = rows
        return delivery

    def delivery(self, rows: pa.Table, *, content: bool = False) -> Delivery:
        self.number += 1
        content = content or self.held is None
        changes = consolidate(_zset(rows))
        if not content:
            assert self.held is not None
            changes = consolidate(pa.concat_tables([negate(_zset(self.held)), _zset(rows)]))
        upserts, deletes = changes.drop_columns([WEIGHT]), pa.table({})
        if self.key:
            net = net_of(changes, self.key)
            upserts, deletes = net.upserts, net.deletes
        mark = Mark(at(self.number), 1)
        return Delivery(
            mark, f"stamp {self.number}", changes.drop_columns([WEIGHT]), changes[WEIGHT], upserts, deletes, content
        )

    def rows(self) -> pa.Table:
        """What the target says that it holds."""
        assert self.held is not None
        return pa.concat_tables([self.held.schema.empty_table(), *self.target.rows(self.held.schema)])

    def version(self) -> Version:
        """The table as it is now."""
        found = self.target.table.load(self.assignment.owner)
        assert found is not None
        return found

    def _refuse(self, rows: pa.Table, reasons: Sequence[str]) -> None:
        self.refused += zip(rows.to_pylist(), reasons, strict=True)


def same(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables have the same rows, in any order."""
    both = pa.concat_tables([_zset(left), negate(_zset(right.select(left.column_names).cast(left.schema)))])
    return not len(consolidate(both))


def _zset(rows: pa.Table) -> pa.Table:
    return with_weights(rows, np.ones(rows.num_rows, np.int64))
