"""Tables that are read in chunks while changes flow: what passes meanwhile, and which rows of a chunk are let in."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.cdc.windows import Hashes, Ids, Passing, Visibility, key_hashes

# Keys that passed are put together when there are this many parts of them.
SEEN_PARTS_MAX = 1000


@dataclass(slots=True)
class _Seen:
    """The keys of a table that were read or changed since a job began."""

    table: Hashable
    key: tuple[str, ...]
    parts: list[Hashes] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        self.parts.append(key_hashes(rows, self.key))
        if len(self.parts) > SEEN_PARTS_MAX:
            self.parts = [np.unique(np.concatenate(self.parts))]


class Windows:
    """Owned by the thread that follows the stream. A table is whatever the database knows it by."""

    def __init__(self) -> None:
        self._watched: tuple[str, Hashable, Passing] | None = None
        self._seen: dict[str, _Seen] = {}

    def open(self, job: str, table: Hashable, key: tuple[str, ...], *, purge: bool) -> None:
        """From now on, before the first chunk of a job is read, what passes of its table counts.

        With `purge`, all keys are kept that are read or pass until the job's end; see `gone`.
        """
        if self._watched is None or self._watched[0] != job:
            self._watched = job, table, Passing(key)
        if purge and job not in self._seen:
            self._seen[job] = _Seen(table, key)

    def seen_by_all(self, visibility: Visibility) -> None:
        """No chunk will be read that sees less than this."""
        if self._watched is not None:
            self._watched[2].visibility = visibility

    def rows(self, table: Hashable, rows: pa.Table, ids: Ids) -> None:
        """Rows pass, each changed by a transaction."""
        if self._watched is not None and self._watched[1] == table:
            self._watched[2].pass_by(rows, ids)
        for seen in self._seen.values():
            if seen.table == table:
                seen.add(rows)

    def emptied(self, table: Hashable, transaction: int) -> None:
        """A transaction has emptied a table: of chunks that do not show that, nothing is let in."""
        if self._watched is not None and self._watched[1] == table:
            self._watched[2].empty(transaction)

    def entering(self, job: str, chunk: pa.Table, seen: Visibility) -> pa.Table:
        """The rows of a chunk, or keys that it does not have, that nothing newer has passed for."""
        assert self._watched is not None
        assert self._watched[0] == job
        return self._watched[2].unaffected(chunk, seen)

    def read(self, job: str, rows: pa.Table) -> None:
        """Rows of a job were read, whether or not they were let in."""
        if job in self._seen:
            self._seen[job].add(rows)

    def gone(self, job: str, there: pa.Table) -> pa.Table:
        """Of the keys that are there, those that were neither read nor changed since the job began, which ends."""
        seen = self._seen.pop(job)
        return without(there, np.concatenate([np.empty(0, np.uint64), *seen.parts]), seen.key)

    def keep(self, jobs: Collection[str | None]) -> None:
        """Forgets jobs that there are no more."""
        self._seen = {job: seen for job, seen in self._seen.items() if job in jobs}

    def close(self) -> None:
        """Forgets everything: nobody reads any more."""
        self._watched, self._seen = None, {}


def without(keys: pa.Table, hashes: Hashes, key: Sequence[str]) -> pa.Table:
    """The keys that do not have one of some hashes."""
    return keys.filter(pa.array(~np.isin(key_hashes(keys, key), hashes)))
