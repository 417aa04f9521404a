"""Tables whose rows nothing identifies but their whole content: each row is the n-th of those that are equal to it.

The topic's key is `_row`, a digest of the content and a number. A row more is the next number, a row less takes the
last one away, so that the topic has exactly as many rows of each content as the table has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.digests import DIGEST, Digests
from headwater.cdc.postgres.changes import Changes
from headwater.log.port import Log

ROW = pa.field("_row", pa.string())
# Counts that have changed are kept apart from the sorted ones until there are this many.
CHANGED_MAX = 100_000
_DIGITS = DIGEST.itemsize

Counts = npt.NDArray[np.int64]


class Occurrences:
    """How many rows of each content there are: 40 bytes per content."""

    def __init__(self) -> None:
        self._digests: Digests = np.empty(0, DIGEST)
        self._counts: Counts = np.empty(0, np.int64)
        self._changed: dict[bytes, int] = {}

    @classmethod
    def of(cls, log: Log, topic: str) -> Occurrences:
        """Those of the rows that a topic has now."""
        found = cls()
        live = live_rows(log, topic)
        contents = np.array(pc.utf8_slice_codeunits(live, 0, _DIGITS).to_pylist(), DIGEST)
        found._digests, found._counts = np.unique(contents, return_counts=True)
        return found

    def count(self, digests: Digests, removed: npt.NDArray[np.bool_]) -> Counts:
        """Takes rows in, or away, one after the other; the number of each. 0 for one that is not there to be taken."""
        if not len(digests):
            return np.empty(0, np.int64)
        contents, group = np.unique(digests, return_inverse=True)
        before = self._look_up(contents)
        order = np.argsort(group, kind="stable")
        steps = np.where(removed, -1, 1)[order]
        groups = group[order]
        first = np.searchsorted(groups, np.arange(len(contents)))
        total = np.cumsum(steps)
        earlier = np.concatenate([[0], total])[first]
        after = total - earlier[groups] + before[groups]
        if (after < 0).any():
            after, steps = _without_debts(groups, steps, before)
        numbers = np.empty(len(digests), np.int64)
        numbers[order] = np.where(steps == 0, 0, np.maximum(after, after - steps))
        last = np.append(first[1:], len(groups)) - 1
        self._note(contents, after[last])
        return numbers

    def _look_up(self, contents: Digests) -> Counts:
        at = np.searchsorted(self._digests, contents)
        inside = at < len(self._digests)
        counts = np.zeros(len(contents), np.int64)
        counts[inside] = np.where(self._digests[at[inside]] == contents[inside], self._counts[at[inside]], 0)
        if self._changed:
            for number, content in enumerate(contents.tolist()):
                counts[number] = self._changed.get(content, counts[number])
        return counts

    def _note(self, contents: Digests, counts: Counts) -> None:
        self._changed.update(zip(contents.tolist(), counts.tolist(), strict=True))
        if len(self._changed) <= CHANGED_MAX:
            return
        changed = np.array(list(self._changed), DIGEST)
        kept = ~np.isin(self._digests, changed)
        together = np.concatenate([self._digests[kept], changed])
        counted = np.concatenate([self._counts[kept], np.array(list(self._changed.values()), np.int64)])
        together, counted = together[counted > 0], counted[counted > 0]
        order = np.argsort(together)
        self._digests, self._counts, self._changed = together[order], counted[order], {}


def live_rows(log: Log, topic: str) -> pa.Array:
    """The keys of the rows that a topic has now."""
    return pa.concat_arrays([pa.array([], ROW.type), *live_keys(log, topic, [ROW.name])[ROW.name].chunks])


def live_keys(log: Log, topic: str, key: Sequence[str]) -> pa.Table:
    """The keys of the rows that a topic has now, from its keys alone, however large its rows are."""
    schema = log.topic(topic).schema
    empty = pa.schema([schema.field(name).with_nullable(True) for name in key]).empty_table()
    columns = [*key, "_deleted"]
    parts = [batch.records.select(columns) for batch in log.batches(topic, columns=columns)]
    if not parts:
        return empty
    records = pa.concat_tables(parts)
    numbered = records.append_column("_number", pa.array(np.arange(records.num_rows)))
    # A key is in one partition, whose records come in their order: its last one says whether there is a row.
    last = records.take(numbered.group_by(list(key)).aggregate([("_number", "max")])["_number_max"])
    return last.filter(pc.invert(last["_deleted"])).select(list(key)).cast(empty.schema)


def row_keys(digests: Digests, numbers: Counts) -> pa.Array:
    """The keys of rows: digest and number."""
    contents = pa.array(digests.astype(str), pa.string())
    return pc.binary_join_element_wise(contents, pa.array(numbers).cast(pa.string()), "-")


def keyed(rows: pa.Table, occurrences: Occurrences) -> pa.Table:
    """Rows that were read, whose `_row` is their digest, with keys."""
    contents = np.array(rows[ROW.name].to_pylist(), DIGEST)
    numbers = occurrences.count(contents, np.zeros(len(contents), np.bool_))
    return rows.set_column(rows.schema.get_field_index(ROW.name), ROW, row_keys(contents, numbers))


def keyed_changes(changes: Changes, occurrences: Occurrences) -> tuple[Changes, bool]:
    """Changes of whole rows as changes of keys; and whether each row that was taken away had been there."""
    assert changes.digests is not None
    numbers = occurrences.count(changes.digests, changes.deleted)
    known = numbers > 0
    kept = np.cumsum(known) - 1
    keys = row_keys(changes.digests, numbers)
    gone = pa.array(changes.deleted)
    columns = [pc.if_else(gone, pa.scalar(None, column.type), column) for column in changes.rows.columns]
    rows = pa.Table.from_arrays([*columns, keys], schema=changes.rows.schema.append(ROW)).filter(pa.array(known))
    specials = [
        (int(kept[row]), column, text)
        for row, column, text in changes.specials
        if known[row] and not changes.deleted[row]
    ]
    return replace(
        changes,
        rows=rows,
        messages=changes.messages[known],
        operations=changes.operations[known],
        deleted=changes.deleted[known],
        specials=specials,
        digests=changes.digests[known],
    ), bool(known.all())


def _without_debts(groups: Counts, steps: Counts, before: Counts) -> tuple[Counts, Counts]:
    """As a sum of steps in each group, but for steps that would lead below nothing: they become 0."""
    counts, after, taken = before.copy(), np.empty(len(steps), np.int64), steps.copy()
    for number, (group, step) in enumerate(zip(groups.tolist(), steps.tolist(), strict=True)):
        if counts[group] + step < 0:
            taken[number] = 0
        else:
            counts[group] += step
        after[number] = counts[group]
    return after, taken
