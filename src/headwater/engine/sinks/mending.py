"""Mending: what is done to a target that stays at its position: an audit, its repair, and a refused row sent again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.engine.sinks.audit import Comparison, SinkAudit, compare, keys_of
from headwater.engine.sinks.letters import DeadLetters, text_of
from headwater.engine.sinks.port import CannotContinue, Mark
from headwater.engine.sinks.promise import content_at
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.errors import RowRefused, TargetFailed, UsageError
from headwater.model.encoding import json_rows
from headwater.model.rows import parse_json_lines
from headwater.views.identity import normal
from headwater.views.placing import hashes_of_keys
from headwater.views.zset import WEIGHT

Progress = Callable[[int, int], None]


class Mending:
    """Compares an open target with the view as of the target's mark, and changes single rows of it."""

    def __init__(
        self, outside: Target, given: Assignment, letters: DeadLetters, directory: Path, mark: Mark, stamp: str
    ) -> None:
        """`stamp` is that of the mark."""
        self._outside, self._given, self._letters, self._directory = outside, given, letters, directory
        self._mark, self._stamp = mark, stamp

    def audit(self, *, repair: bool, progress: Progress) -> SinkAudit:
        content = self._content()
        found = self._compared(content, progress)
        differs = found.missing.num_rows + found.different.num_rows
        refused = self._letters.originals() if differs and self._given.key else frozenset()
        known = [_known(rows, refused) for rows in (found.missing, found.different)]
        missing, different = (
            rows.filter(pa.array(~one)) for rows, one in zip((found.missing, found.different), known, strict=True)
        )
        repaired = None
        if repair and (missing.num_rows or different.num_rows or found.extra.num_rows):
            self._repair(found, pa.concat_tables([missing, different]))
            again = self._compared(content, progress)
            refused = self._letters.originals()
            left = [int((~_known(rows, refused)).sum()) for rows in (again.missing, again.different)]
            repaired = not (sum(left) or again.extra.num_rows)
        key = self._given.key
        return SinkAudit(
            sink=self._given.sink,
            view=self._given.view,
            target=self._outside.address,
            position=str(self._mark.position),
            rows_in_view=found.rows[0],
            rows_in_target=found.rows[1],
            checksum_of_view=f"{found.checksums[0]:016x}",
            checksum_of_target=f"{found.checksums[1]:016x}",
            ranges=found.ranges,
            ranges_different=found.ranges_different,
            missing=keys_of(missing, key),
            different=keys_of(different, key),
            extra=keys_of(found.extra, key),
            refused=int(sum(one.sum() for one in known)),
            repaired=repaired,
        )

    def send(self, original: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        content = self._content().drop_columns([WEIGHT])
        before, after = (_parsed(each, content.schema) for each in (original, row))
        key = list(self._given.key)
        if not before.select(key).equals(after.select(key)):
            raise UsageError(
                "A row that is sent again keeps its key.",
                hint=f"Leave {', '.join(key)} as it is; another key is another row of the view.",
            )
        mine = content.filter(_equal(content, before, key))
        if not mine.num_rows or next(json_rows(mine)) != next(json_rows(before)):
            # The view has a later version of the row, or none: that one counts, and the target has it.
            return False
        self._deliver_refusing(after)
        return True

    def _deliver_refusing(self, row: pa.Table) -> None:
        """Brings one row. Raises `RowRefused`, and keeps no other dead letter of it."""
        said: list[str] = []
        with self._letters.diverted(lambda _, reasons: said.extend(reasons)):
            weights = pa.chunked_array([pa.array([1], pa.int64())])
            self._outside.deliver(self._mending(row, weights, row, row.select(list(self._given.key)).slice(0, 0)))
        if said:
            raise RowRefused(said[0])

    def _content(self) -> pa.Table:
        """What the target should hold, as a Z-set. Raises `UsageError`, `TargetFailed`."""
        key = self._given.key
        try:
            content = content_at(self._directory, self._given.view, self._mark)
        except CannotContinue:
            raise TargetFailed("The view is not kept as the target has it; try again in a moment") from None
        return content.filter(complete(content, key)) if key and content.num_rows else content

    def _compared(self, content: pa.Table, progress: Progress) -> Comparison:
        columns = content.drop_columns([WEIGHT]).schema

        def rows() -> Iterator[pa.Table]:
            for part in self._outside.rows(columns):
                yield part.select(columns.names).cast(columns)

        return compare(content, rows, self._given.key, progress)

    def _repair(self, found: Comparison, upserts: pa.Table) -> None:
        key = list(self._given.key)
        difference = found.difference
        if key:
            # What the target refused is left as it is.
            names = pa.concat_tables([upserts.select(key), found.extra.select(key)])
            wanted = np.isin(hashes_of_keys(_normal(difference, key), key), hashes_of_keys(_normal(names, key), key))
            difference = difference.filter(pa.array(wanted))
        rows, weights = difference.drop_columns([WEIGHT]), difference[WEIGHT]
        nothing = pa.table({})
        deletes = found.extra.select(key) if key else nothing
        self._outside.deliver(self._mending(rows, weights, upserts if key else nothing, deletes))

    def _mending(self, rows: pa.Table, weights: pa.ChunkedArray, upserts: pa.Table, deletes: pa.Table) -> Delivery:
        """A delivery that leaves the target at its position, under a stamp that no other delivery has."""
        stamp = json.dumps({**json.loads(self._stamp), "mended": uuid.uuid4().hex}, separators=(",", ":"))
        return Delivery(self._mark, stamp, rows, weights, upserts, deletes, repair=True)


def _normal(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    return pa.table({name: normal(rows[name]) for name in key})


def _known(rows: pa.Table, refused: AbstractSet[str]) -> npt.NDArray[np.bool_]:
    """Which rows are among those that the target has refused."""
    if not refused:
        return np.zeros(rows.num_rows, np.bool_)
    return np.array([text_of(row) in refused for row in json_rows(rows)], np.bool_)


def _equal(rows: pa.Table, one: pa.Table, key: Sequence[str]) -> pa.Array:
    """Which rows have the key of one row."""
    wanted = hashes_of_keys(_normal(one, key), key)
    return pa.array(np.isin(hashes_of_keys(_normal(rows, key), key), wanted))


def _parsed(row: Mapping[str, Any], columns: pa.Schema) -> pa.Table:
    """A row as a table. Raises `RowRefused` if it does not fit the columns of the view."""
    table, rejected = parse_json_lines(json.dumps(row).encode(), columns)
    if rejected:
        raise RowRefused(rejected[0].reason)
    return table.select(columns.names).cast(columns)


def complete(rows: pa.Table, key: Sequence[str]) -> pa.Array:
    """Which rows have no null in their key."""
    return pa.array(np.logical_and.reduce([rows[name].is_valid().to_numpy() for name in key]))
