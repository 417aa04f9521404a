"""Turns whole transactions of the stream into rows of topics, and commits each to a target, in their order.

Most transactions only change rows: many of them are decoded at once and written with one sync. One that also says
something about a table, truncates one, carries a message or is large is taken alone, section by section.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.headers import HEADERS, header_column
from headwater.cdc.postgres.changes import DELETED, Changes, read_changes, read_whole_changes
from headwater.cdc.postgres.gathering import Large, Small
from headwater.cdc.postgres.lsn import ZERO, Lsn
from headwater.cdc.postgres.relations import Relation, read_relation, read_type
from headwater.cdc.postgres.stretch import (
    DELETE,
    INSERT,
    MESSAGE,
    RELATION,
    ROLLED_BACK,
    TRUNCATE,
    TYPE,
    UPDATE,
    Stretch,
    of_kinds,
)
from headwater.cdc.postgres.transactions import LogicalMessage, Transaction, read_message
from headwater.cdc.staging import Staging
from headwater.cdc.windows import Ids
from headwater.connectors.capture.target import Rows, Target, place_in
from headwater.connectors.postgres.occurrences import Occurrences, keyed_changes, live_keys
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.outbox import Outbox
from headwater.connectors.postgres.tables import HISTORY_SCHEMA, Table, Tables, key_not_held
from headwater.connectors.postgres.unchanged import FetchRows, Memory, sliced, with_unchanged
from headwater.log.port import Log

_ROWS = (INSERT, UPDATE, DELETE)
_NOTABLE = (RELATION, ROLLED_BACK, TYPE, TRUNCATE, MESSAGE)
_DELETED = pa.field("_deleted", pa.bool_())
# Values that were not sent make a row larger than its message by any factor: this many bytes of such rows are put
# together at a time, and this many rows as long as nobody knows how large they are.
PUT_BACK_BYTES = 16 << 20
PUT_BACK_ROWS = 2000


class Observer(Protocol):
    """What has to see everything that passes: tables that are being read while changes flow."""

    def rows(self, table: Table, rows: pa.Table, ids: Ids, /) -> None:
        """Rows of a table are about to be committed, each changed by a transaction."""

    def truncated(self, table: Table, transaction: int, /) -> None:
        """A table was emptied by a transaction."""

    def mark(self, content: bytes, staging: Staging, transaction: Transaction, /) -> bool:
        """A mark of ours has come; what is staged is committed with it. Whether there is something to commit."""


class NullObserver:
    """Lets everything pass: no table is being read."""

    def rows(self, _table: Table, _rows: pa.Table, _ids: Ids) -> None:
        pass

    def truncated(self, _table: Table, _transaction: int) -> None:
        pass

    def mark(self, _content: bytes, _staging: Staging, _transaction: Transaction) -> bool:
        return False


class Applier:
    """Applies what a gatherer gives to a target."""

    def __init__(
        self,
        log: Log,
        options: CaptureOptions,
        tables: Tables,
        target: Target[Lsn],
        observer: Observer,
        *,
        find_key: Callable[[Relation], tuple[str, ...] | None],
        fetch_rows: FetchRows,
        directory: Path,
    ) -> None:
        self._log, self._options, self._tables, self._observer = log, options, tables, observer
        self._target, self._find_key, self._fetch_rows, self._directory = target, find_key, fetch_rows, directory
        self._types: dict[int, str] = {}
        self._relations: dict[int, tuple[bytes, Relation]] = {}
        self._memory = Memory(log)
        self._outbox = Outbox(log, options)
        self._occurrences: dict[int, Occurrences] = {}
        self._row_bytes: dict[int, int] = {}
        # Where the stream is; what lies between this and `lsn` has nothing to do with the tables that are captured.
        self.passed = self.lsn
        log.create(options.names.history, HISTORY_SCHEMA, exist_ok=True)

    @property
    def lsn(self) -> Lsn:
        """How far the target has everything, durably."""
        return self._target.place

    def apply(self, item: Small | Large) -> None:
        """Commits the item's transactions. Raises `CaptureOvertaken` if another capture has done it."""
        if isinstance(item, Large):
            try:
                if item.transaction.end > self.lsn:
                    self._alone(item.transaction, item.messages.stretches())
            finally:
                item.close()
            return
        first = next((n for n, each in enumerate(item.transactions) if each.end > self.lsn), len(item.transactions))
        for number in self._notable(item):
            if number >= first:
                self._series(item, first, number)
                self._alone(item.transactions[number], [item.stretch.take(item.owner == number)])
                first = number + 1
        self._series(item, first, len(item.transactions))

    def reached(self, lsn: Lsn) -> None:
        """The stream has come to this place without anything that is still to be committed."""
        self.passed = max(self.passed, lsn)

    def heartbeat(self) -> None:
        """Moves the bookmark to where the stream is, so that the database need not keep what is behind."""
        if self.passed > self.lsn or self._tables.changed or self._tables.events:
            self._target.commit(lambda _: None, self.passed)

    def forget(self, oid: int) -> None:
        """The topic of a table was changed by another way than the stream."""
        self._occurrences.pop(oid, None)

    def _uncommitted(self, table: Table) -> Iterator[pa.Table]:
        """Rows of a table that were applied and are not in the log yet, the newest first."""
        return self._target.uncommitted(table.relation.oid, table.topic)

    def _notable(self, item: Small) -> list[int]:
        """The transactions that have more than changes of rows of known tables."""
        stretch = item.stretch
        places = np.flatnonzero(of_kinds(stretch.kinds, _NOTABLE))
        found: set[int] = set()
        for at in places.tolist():
            if stretch.kinds[at] == RELATION:
                body = stretch.body(at)
                known = self._relations.get(struct.unpack_from(">I", body)[0])
                if known is not None and known[0] == body:
                    continue
            found.add(int(item.owner[at]))
        return sorted(found)

    def _series(self, item: Small, first: int, end: int) -> None:
        """Transactions in a row that only change rows: decoded together, each a commit."""
        if first >= end:
            return
        stretch, owner = item.stretch, item.owner
        mine = of_kinds(stretch.kinds, _ROWS) & (owner >= first) & (owner < end)
        messages = np.flatnonzero(mine)
        if end - first > 1 and self._bytes_put_back(stretch, messages) > PUT_BACK_BYTES:
            middle = (first + end) // 2
            self._series(item, first, middle)
            self._series(item, middle, end)
            return
        ends = np.array([each.end for each in item.transactions])[owner]
        decoded = [
            (table, self._whole(table, changes, self._uncommitted(table)))
            for table, changes in self._decoded(stretch, messages, ends)
        ]
        used = np.unique(np.concatenate([np.empty(0, np.int64), *(owner[each.messages] for _, each in decoded)]))
        self.passed = max(self.passed, item.transactions[end - 1].end)
        if not len(used):
            return
        headers = [item.transactions[number].headers for number in used]
        ids = np.array([item.transactions[number].id for number in used], np.int64)
        tables = []
        for table, changes in decoded:
            numbers = np.searchsorted(used, owner[changes.messages])
            tables.append((table, _with_system(changes, headers, numbers), numbers))

        routed = [(table, list(self._outbox.route(table, rows, numbers))) for table, rows, numbers in tables]
        for table, rows, numbers in tables:
            self._observer.rows(table, rows, ids[numbers])

        def fill(target: Rows) -> None:
            for part in (part for table, parts in routed if self._is_active(table) for part in parts):
                if len(used) == 1:
                    target.append(part.topic, part.rows)
                else:
                    target.append_each(part.topic, part.rows, part.numbers, commits=len(used))

        last = item.transactions[end - 1]
        self._target.commit(fill, last.end, last.committed_at)

    def _alone(self, transaction: Transaction, stretches: Iterable[Stretch]) -> None:
        """One transaction, section by section: between two sections the tables may have changed."""
        staging, wanted = Staging(self._directory), False
        try:
            for stretch in stretches:
                begin = 0
                for at in np.flatnonzero(of_kinds(stretch.kinds, _NOTABLE)).tolist():
                    self._stage(stretch.take(slice(begin, at)), transaction, staging)
                    wanted |= self._note(stretch, at, transaction, staging)
                    begin = at + 1
                self._stage(stretch.take(slice(begin, None)), transaction, staging)
            self.passed = max(self.passed, transaction.end)
            if wanted or staging.rows or self._tables.changed or self._tables.events:
                self._commit_staged(staging, transaction)
        finally:
            staging.close()

    def _commit_staged(self, staging: Staging, transaction: Transaction) -> None:
        def fill(target: Rows) -> None:
            for topic, rows in staging.tables():
                # A table that was dropped and made again has the topic of the one before.
                tables = [each for each in self._tables.by_oid.values() if each.topic == topic]
                if not tables or any(each.stopped is None for each in tables):
                    target.append(topic, rows)

        with staging.trimmed():
            self._target.commit(fill, transaction.end, transaction.committed_at)

    def _stage(self, stretch: Stretch, transaction: Transaction, staging: Staging) -> None:
        messages = np.flatnonzero(of_kinds(stretch.kinds, _ROWS))
        for table, changes in self._decoded(stretch, messages, np.full(len(stretch), transaction.end)):
            known = self._row_bytes.get(table.relation.oid)
            rows_max = PUT_BACK_ROWS if known is None else max(1, PUT_BACK_BYTES // known)
            for piece in sliced(changes, rows_max) if changes.unchanged else [changes]:
                self._stage_changes(table, piece, transaction, staging)

    def _stage_changes(self, table: Table, changes: Changes, transaction: Transaction, staging: Staging) -> None:
        earlier = itertools.chain(staging.seen(table.topic), self._uncommitted(table)) if changes.unchanged else ()
        numbers = np.zeros(len(changes.messages), np.int64)
        whole = _with_system(self._whole(table, changes, earlier), [transaction.headers], numbers, uniform=True)
        self._observer.rows(table, whole, np.full(whole.num_rows, transaction.id, np.int64))
        for part in self._outbox.route(table, whole, numbers):
            staging.append(part.topic, part.rows)

    def _whole(self, table: Table, changes: Changes, earlier: Iterable[pa.Table]) -> Changes:
        """The changes with the values that were not sent."""
        completed = with_unchanged(changes, table, earlier, self._memory, self._fetch_rows)
        if changes.unchanged:
            self._row_bytes[table.relation.oid] = max(1, completed.rows.nbytes // completed.rows.num_rows)
        return completed

    def _bytes_put_back(self, stretch: Stretch, messages: npt.NDArray[np.int64]) -> int:
        """How large changes may become in which values were not sent, as far as earlier ones tell."""
        if not self._row_bytes:
            return 0
        oids, counts = np.unique(stretch.integers(stretch.bodies[messages]), return_counts=True)
        sizes = [self._row_bytes.get(oid, 0) for oid in oids.tolist()]
        return int(np.dot(counts, np.array(sizes, np.int64))) if len(oids) else 0

    def _note(self, stretch: Stretch, at: int, transaction: Transaction, staging: Staging) -> bool:
        """Heeds what a message says that is not a change of a row; whether that has to be committed."""
        kind, body = int(stretch.kinds[at]), stretch.body(at)
        if kind == TYPE:
            oid, name = read_type(body)
            self._types[oid] = name
        elif kind == RELATION:
            relation = read_relation(body, self._types)
            self._relations[relation.oid] = (body, relation)
            self._tables.describe(relation, transaction.end, self._find_key)
        elif kind == ROLLED_BACK:
            # How the rows of others are to be read, unless it was altered there: then the server describes it again.
            relation = read_relation(body, self._types)
            self._relations.setdefault(relation.oid, (b"", relation))
        elif kind == TRUNCATE:
            self._truncate(body, transaction, staging)
        else:
            return self._message(read_message(body), transaction, staging)
        return False

    def _message(self, message: LogicalMessage, transaction: Transaction, staging: Staging) -> bool:
        """A mark of ours, or a message of a program; whether it has to be committed."""
        if message.prefix == self._options.names.watermark:
            return self._observer.mark(message.content, staging, transaction)
        events = list(self._outbox.message(message, transaction.headers))
        for part in events:
            staging.append(part.topic, part.rows)
        return bool(events)

    def _truncate(self, body: bytes, transaction: Transaction, staging: Staging) -> None:
        (count,) = struct.unpack_from(">I", body)
        for oid in struct.unpack_from(f">{count}I", body, 5):
            table = self._tables.by_oid.get(oid)
            if table is None or table.stopped is not None or transaction.end <= table.since:
                continue
            self._tables.truncated(table, transaction.end)
            self._observer.truncated(table, transaction.id)
            if table.append_only:
                continue
            self._occurrences.pop(oid, None)
            if table.counted:
                self._occurrences[oid] = Occurrences()
            columns = list(table.topic_key)
            there = live_keys(self._log, table.topic, columns)
            keys = [there, *staging.seen(table.topic), *self._uncommitted(table)]
            gone = pa.concat_tables([each.select(columns).cast(keys[0].select(columns).schema) for each in keys])
            rows = tombstones(gone.group_by(columns).aggregate([]), [transaction.headers])
            self._observer.rows(table, rows, np.full(rows.num_rows, transaction.id, np.int64))
            staging.append(table.topic, rows)

    def _decoded(
        self, stretch: Stretch, messages: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> Iterator[tuple[Table, Changes]]:
        """The changes of every table that is captured; `ends` is, for each message, where its transaction ends."""
        oids = stretch.integers(stretch.bodies[messages])
        for oid in np.unique(oids).tolist():
            table = self._tables.by_oid.get(oid)
            if table is None or table.stopped is not None:
                continue
            mine = messages[oids == oid]
            mine = mine[ends[mine] > table.since]
            if not len(mine):
                continue
            relation = self._relations[oid][1]
            if table.counted:
                changes = self._counted(table, read_whole_changes(stretch, mine, relation), Lsn(ends[mine[0]]))
            else:
                changes = self._identified(table, read_changes(stretch, mine, relation, table.key), Lsn(ends[mine[0]]))
            if changes is not None:
                yield table, changes

    def _identified(self, table: Table, changes: Changes, lsn: Lsn) -> Changes | None:
        """Changes of a table whose keys its topic can hold; None if one cannot."""
        for _, column, text in changes.specials:
            if column in table.key:
                self._tables.stop(table, key_not_held(table, column, text), lsn)
                return None
        return changes

    def _counted(self, table: Table, changes: Changes | None, lsn: Lsn) -> Changes | None:
        """Changes of a table whose rows are counted; None if that cannot be done any more."""
        oid = table.relation.oid
        if changes is None:
            self._tables.stop(table, "The old row of a change was not sent completely: set REPLICA IDENTITY FULL.", lsn)
            return None
        if oid not in self._occurrences:
            self._occurrences[oid] = Occurrences.of(self._log, table.topic)
        counted, known = keyed_changes(changes, self._occurrences[oid])
        if not known:
            # A row was deleted that the log does not have: its columns have changed, or somebody changed the topic.
            self._tables.read_again(oid, purge=True)
        return counted

    def _is_active(self, table: Table) -> bool:
        return self._tables.by_oid[table.relation.oid].stopped is None


def captured_to(log: Log, options: CaptureOptions) -> Lsn:
    """How far the WAL was captured, as the log knows it; zero if it was not at all."""
    place = place_in(log.bookmark(options.names.position))
    return ZERO if place is None else Lsn.parse(place)


def _with_system(
    changes: Changes,
    headers: Sequence[Mapping[str, str]],
    numbers: npt.NDArray[np.int64],
    *,
    uniform: bool = False,
) -> pa.Table:
    """Rows with their headers and what is deleted; `uniform` ones have that column also if nothing is."""
    rows = changes.rows.append_column(HEADERS, header_column(headers, numbers, changes.operations, changes.specials))
    if not uniform and not changes.deleted.any():
        return rows
    return rows.append_column(_DELETED, pa.array(changes.deleted))


def tombstones(keys: pa.Table, headers: Sequence[Mapping[str, str]]) -> pa.Table:
    """A tombstone for each key."""
    rows = keys.num_rows
    operations = np.full(rows, DELETED, np.uint8)
    column = header_column(headers, np.zeros(rows, np.int64), operations)
    return keys.append_column(HEADERS, column).append_column(_DELETED, pa.repeat(pa.scalar(True), rows))
