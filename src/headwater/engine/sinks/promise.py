"""The promise of a key: a view that is sunk by key has one row per key, which is checked with every delivery."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.engine.reading import Reader
from headwater.engine.sinks.keyed import net_of
from headwater.engine.sinks.port import CannotContinue, Mark
from headwater.engine.subscription import Subscription
from headwater.errors import KeyRepeated, UsageError
from headwater.model.encoding import json_rows
from headwater.views.identity import normal
from headwater.views.placing import Hashes, hashes_of_keys
from headwater.views.zset import WEIGHT, consolidate, negate, weights_of, with_weights

SHOWN_KEYS_MAX = 5
"""How many of the keys that are repeated an error names."""
_RECENT_PART = 8
_RECENT_MIN = 1 << 16


class KeyCounts:
    """How many rows each key has, by the hash of the key: a large sorted array, and a small one of what came since."""

    def __init__(self) -> None:
        self._base = _Counted()
        self._recent = _Counted()

    def add(self, hashes: Hashes, counts: Hashes) -> None:
        self._recent = self._recent.plus(hashes, counts)
        if len(self._recent.hashes) > max(_RECENT_MIN, len(self._base.hashes) // _RECENT_PART):
            self._base = self._base.plus(self._recent.hashes, self._recent.counts)
            self._recent = _Counted()

    def of(self, hashes: Hashes) -> Hashes:
        return self._base.of(hashes) + self._recent.of(hashes)


class _Counted:
    def __init__(self, hashes: Hashes | None = None, counts: Hashes | None = None) -> None:
        self.hashes = np.zeros(0, np.int64) if hashes is None else hashes
        self.counts = np.zeros(0, np.int64) if counts is None else counts

    def plus(self, hashes: Hashes, counts: Hashes) -> _Counted:
        hashes, counts = np.concatenate([self.hashes, hashes]), np.concatenate([self.counts, counts])
        if not len(hashes):
            return self
        order = np.argsort(hashes, kind="stable")
        hashes, counts = hashes[order], counts[order]
        starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
        totals = np.add.reduceat(counts, starts)
        kept = totals != 0
        return _Counted(hashes[starts][kept], totals[kept])

    def of(self, hashes: Hashes) -> Hashes:
        if not len(self.hashes):
            return np.zeros(len(hashes), np.int64)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        counts: Hashes = np.where(self.hashes[places] == hashes, self.counts[places], 0)
        return counts


class Promise:
    """Watches one view for two rows of one key. What it is told is the same as what the target is brought."""

    def __init__(self, directory: Path, view: str, key: Sequence[str]) -> None:
        self._directory, self._view, self._key = directory, view, list(key)
        self._counts: KeyCounts | None = None
        # Hashes that two different keys share.
        self._shared: set[int] = set()

    def forget(self) -> None:
        """What was known of the view; the next check begins with what it held."""
        self._counts = None

    def check(self, changes: pa.Table, before: Mark | None) -> None:
        """Takes a consolidated change into account, of the content at `before`; without one it is the content.

        Raises `KeyRepeated`, and `CannotContinue` if a key was repeated at the position, and is not any more.
        """
        counts = KeyCounts() if before is None else self._counts
        if counts is None and before is not None:
            counts = KeyCounts()
            counts.add(*self._hashed(content_at(self._directory, self._view, before)))
        assert counts is not None, "there is a mark or there are counts"
        self._counts = None
        hashes, weights = self._hashed(changes)
        counts.add(hashes, weights)
        suspect = np.unique(hashes[counts.of(hashes) > 1])
        suspect = suspect[~np.isin(suspect, list(self._shared))] if self._shared else suspect
        if len(suspect):
            self._look(suspect)
        # Only now: what is called again after an error counts again from what the view held.
        self._counts = counts

    def _hashed(self, rows: pa.Table) -> tuple[Hashes, Hashes]:
        keys = pa.table({name: normal(rows[name]) for name in self._key})
        return hashes_of_keys(keys, self._key), weights_of(rows)

    def _look(self, suspect: Hashes) -> None:
        """Looks at what the view holds of some hashes now, and says which keys are there more than once."""
        with Reader(self._directory) as reader:
            content = reader.read([self._view]).tables[self._view]
        keys = pa.table({name: normal(content[name]) for name in self._key})
        hashes = hashes_of_keys(keys, self._key)
        chosen = np.isin(hashes, suspect)
        found = consolidate(with_weights(content.filter(pa.array(chosen)), np.ones(int(chosen.sum()), np.int64)))
        repeated = net_of(found, self._key).repeated
        if repeated.num_rows:
            raise KeyRepeated(self._view, self._key, list(json_rows(repeated.slice(0, SHOWN_KEYS_MAX))))
        distinct, numbers = np.unique(hashes[chosen], return_counts=True)
        alike = set(distinct[numbers > 1].tolist())
        self._shared |= alike
        if not alike.issuperset(suspect.tolist()):
            raise CannotContinue


def content_at(directory: Path, view: str, mark: Mark) -> pa.Table:
    """The content that a view had at a mark, as a consolidated Z-set: what it has now without what came since.

    Raises `CannotContinue` if the changes since are no longer kept.
    """
    with Reader(directory) as reader:
        snapshot = reader.read([view])
    content = snapshot.tables[view]
    parts = [with_weights(content, np.ones(content.num_rows, np.int64))]
    try:
        with Subscription(directory, view, mark.position, generation=mark.generation) as subscription:
            while (found := subscription.poll()) is not None and found.position <= snapshot.position:
                if found.snapshot:
                    raise CannotContinue
                parts.append(negate(found.rows.append_column(WEIGHT, found.weights)))
    except UsageError:
        raise CannotContinue from None
    return consolidate(pa.concat_tables(parts)) if len(parts) > 1 else consolidate(parts[0])
