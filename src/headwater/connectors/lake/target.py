"""A table made of Parquet files as the target of a view: one commit per delivery, which keeps the position, too."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.connectors.lake import changes, rewriting
from headwater.connectors.lake.failures import failing
from headwater.connectors.lake.rewriting import Rewrite
from headwater.connectors.lake.table import Change, DataFile, LakeTable, Moved, Version
from headwater.engine.sinks.port import Mark, PositionChanged
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.errors import TargetFailed, UsageError
from headwater.model.durations import Duration, duration_of
from headwater.views.zset import WEIGHT, with_weights

Keep = Literal["content", "changes"]

COMMIT_ATTEMPTS_MAX = 5
"""How often a delivery is brought again because others, such as a maintenance job, commit to the table as well."""
IDLE_STEPS_MAX = 1000
IDLE_SECONDS_MAX = 600.0
"""How far the position in the table may be behind while the view does not change: keeping it is a commit of its own."""
CLEAN_SECONDS = 600.0
"""How often files that nothing needs are looked for."""


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """What can be chosen for a table of any format, checked."""

    keep: Keep
    every: timedelta
    retention: timedelta
    replace: bool

    @classmethod
    def checked(cls, *, keep: Keep, every: Duration, retention: Duration, replace: bool) -> LakeOptions:
        """Raises `UsageError`."""
        if keep not in get_args(Keep):
            raise UsageError(f"Invalid keep={keep!r}: expected 'content' or 'changes'.", hint="Use keep='content'.")
        return cls(keep, duration_of("every", every), duration_of("retention", retention), replace)


class LakeTarget(Target):
    """Keeps a view in a `LakeTable`: its rows, or the history of its changes. Each delivery is one version of it."""

    needs_key: ClassVar[bool] = False
    joined_rows_max: ClassVar[int] = 1_000_000

    def __init__(self, table: LakeTable, options: LakeOptions) -> None:
        self.table, self.options, self.every = table, options, options.every
        self._assignment: Assignment | None = None
        self._stamp: str | None = None
        self._kept: tuple[Mark, float] | None = None
        self._cleaned_at = time.monotonic()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    @property
    def address(self) -> str:
        return self.table.address

    def open(self, assignment: Assignment) -> str | None:
        self._assignment, self._kept = assignment, None
        with failing():
            version = self.table.load(assignment.owner)
        self._check_owner(version)
        self._stamp = version.stamp if version is not None else None
        return self._stamp

    def deliver(self, delivery: Delivery) -> None:
        if delivery.is_move and self._is_near(delivery.mark):
            return
        with failing():
            for _ in range(COMMIT_ATTEMPTS_MAX):
                with suppress(Moved):
                    if self._deliver(delivery):
                        self._stamp, self._kept = delivery.stamp, (delivery.mark, time.monotonic())
                        self._clean()
                    return
        raise TargetFailed(f"Other programs keep changing {self.address}")

    def rows(self, columns: pa.Schema) -> Iterator[pa.Table]:
        with failing():
            version = self.table.load(self._told.owner)
            files = () if version is None else version.files
            if self.options.keep == "changes":
                held = changes.content_of(self.table, files, columns)
                yield rewriting.repeated(held.filter(pc.greater(held[WEIGHT], 0)))
                return
            for file in files:
                yield self.table.read(file, columns.names).select(columns.names).cast(columns)

    def check(self) -> None:
        """Raises `PositionChanged` if the table is not where the last delivery left it."""
        with failing():
            version = self.table.load(self._told.owner)
        if (None if version is None else version.stamp) != self._stamp:
            raise PositionChanged

    def forget(self) -> None:
        with failing():
            version = self.table.load(self._told.owner)
            if version is not None and version.owner == self._told.owner:
                self.table.begin(version, None)
                self.table.commit(Change(self._told.owner, "", version.number + 1, [], []))
        self._stamp = None

    def close(self) -> None:
        self.table.close()

    @property
    def _told(self) -> Assignment:
        assert self._assignment is not None, "it was opened"
        return self._assignment

    def _is_near(self, mark: Mark) -> bool:
        """Whether the position in the table is good enough for a view that has not changed since."""
        if self._kept is None:
            return False
        kept, at = self._kept
        steps = kept.position.behind(mark.position)
        near = steps < IDLE_STEPS_MAX and time.monotonic() - at < IDLE_SECONDS_MAX
        return near and kept.generation == mark.generation

    def _check_owner(self, version: Version | None) -> None:
        if version is not None and version.owner not in (None, self._told.owner):
            raise TargetFailed(f"{self.address} belongs to the sink {version.owner!r}", "refused")

    def _deliver(self, delivery: Delivery) -> bool:
        """Whether the table keeps the stamp. Raises `Moved`."""
        version = self.table.load(self._told.owner)
        self._check_owner(version)
        held = None if version is None else version.stamp
        if held == delivery.stamp != self._stamp:
            # It was committed, and that was not known.
            return True
        if held != self._stamp and not delivery.content:
            raise PositionChanged
        if version is None and delivery.is_move:
            # A sink without a key that starts with "now": its table is made with the first change.
            return False
        version = version or self.table.create(self._schema(delivery), self._told.owner)
        if delivery.content:
            self._replace(version, delivery)
        else:
            self._change(version, delivery)
        return True

    def _change(self, version: Version, delivery: Delivery) -> None:
        """Brings net changes."""
        rewrite = self._rewritten(version, delivery)
        self.table.begin(version, None)
        self._commit(version, delivery, rewrite)

    def _rewritten(self, version: Version, delivery: Delivery) -> Rewrite:
        if delivery.is_move:
            return Rewrite(pa.table({}), [])
        assert version.schema is not None, "the table has columns"
        if self.options.keep == "changes":
            rows = changes.as_history(_zset(delivery), version.number + 1, str(delivery.mark.position))
            change = Rewrite(rows.cast(_named(version.schema, rows)), [])
            return rewriting.with_small_files(self.table, version.files, change)
        if self._told.key:
            rows, refused = self._accepted(delivery.upserts, version.schema)
            key = list(self._told.key)
            gone = pa.concat_tables([each.select(key) for each in (rows, delivery.deletes, refused) if each.num_rows])
            change = rewriting.without_keys(self.table, version.files, gone)
        else:
            weights = delivery.weights.to_numpy()
            added = rewriting.repeated(_zset(delivery).filter(pa.array(weights > 0)))
            rows, _ = self._accepted(added, version.schema)
            gone = with_weights(delivery.rows, -weights).filter(pa.array(weights < 0))
            change = rewriting.without_rows(self.table, version.files, gone)
        rows = rows.cast(_named(version.schema, rows))
        parts = [rows, *([change.rows.select(rows.column_names).cast(rows.schema)] if change.rows.column_names else [])]
        change = Rewrite(pa.concat_tables(parts), change.removed)
        return rewriting.with_small_files(self.table, version.files, change)

    def _replace(self, version: Version, delivery: Delivery) -> None:
        """Brings everything that the view has."""
        schema = self._schema(delivery)
        ours = version.owner is not None
        if not ours and not self.options.replace and any(file.rows for file in version.files):
            raise TargetFailed(
                f"{self.address} has rows that no sink wrote; empty it, or allow replace=True", "refused"
            )
        same = _same_columns(version.schema, schema)
        if not ours and not same and version.schema is not None and not self.options.replace:
            raise TargetFailed(f"{self.address} has different columns than the view: {version.schema.names}", "refused")
        becoming = version.schema if same else schema
        assert becoming is not None, "the table has columns"
        if self.options.keep == "changes":
            held = changes.content_of(self.table, version.files, delivery.rows.schema) if same and ours else None
            zset = changes.changes_of(delivery, held)
            rows = changes.as_history(zset, version.number + 1, str(delivery.mark.position))
            removed: Sequence[DataFile] = () if same and ours else version.files
        else:
            rows = delivery.upserts if self._told.key else rewriting.repeated(_zset(delivery))
            rows, _ = self._accepted(self._sorted(rows), becoming)
            removed = version.files
        self.table.begin(version, None if same else schema)
        self._commit(version, delivery, Rewrite(rows.cast(_named(becoming, rows)), removed), told=True)

    def _commit(self, version: Version, delivery: Delivery, rewrite: Rewrite, *, told: bool = False) -> None:
        assignment = self._told
        progress = assignment.progress if told else None
        added = rewriting.write_all(self.table, rewrite.rows, str(delivery.mark.position), progress)
        number = version.number + 1
        self.table.commit(Change(assignment.owner, delivery.stamp, number, added, rewrite.removed))

    def _schema(self, delivery: Delivery) -> pa.Schema:
        """The columns that the table is to have. Raises `TargetFailed` if the format has no type for one of them."""
        rows = delivery.upserts if self._told.key else delivery.rows
        columns = pa.schema([pa.field(field.name, field.type) for field in rows.schema])
        if self.options.keep == "changes":
            taken = [name for name in columns.names if name in changes.COLUMNS.names]
            if taken:
                raise TargetFailed(f"The history of changes has its own column {taken[0]!r}", "refused")
            columns = changes.with_columns(columns)
        return self.table.fitted(columns)

    def _accepted(self, rows: pa.Table, schema: pa.Schema) -> tuple[pa.Table, pa.Table]:
        """The rows that the table takes and those that it does not: somebody may have made a column required."""
        required = [field.name for field in schema if not field.nullable and field.name in rows.column_names]
        missing = [name for name in required if rows[name].null_count]
        if not missing:
            return rows, rows.slice(0, 0)
        bad = np.logical_or.reduce([rows[name].is_null().to_numpy() for name in missing])
        refused = rows.filter(pa.array(bad))
        first = [next(name for name in missing if row[name] is None) for row in refused.select(missing).to_pylist()]
        self._told.refuse(refused, [f"Column {name!r} of {self.address} is required, and is null" for name in first])
        return rows.filter(pa.array(~bad)), refused

    def _sorted(self, rows: pa.Table) -> pa.Table:
        """In the order of the key, so that readers, and later deliveries, can skip files."""
        key = [name for name in self._told.key if not pa.types.is_nested(rows.schema.field(name).type)]
        return rows.sort_by([(name, "ascending") for name in key]) if key else rows

    def _clean(self) -> None:
        """Removes files that have been unused for longer than the retention. What fails here is tried again later."""
        if time.monotonic() - self._cleaned_at < CLEAN_SECONDS:
            return
        self._cleaned_at = time.monotonic()
        try:
            with failing():
                self.table.clean(datetime.now(UTC) - self.options.retention)
        except (TargetFailed, Moved):
            return


def _zset(delivery: Delivery) -> pa.Table:
    return with_weights(delivery.rows, delivery.weights)


def _named(schema: pa.Schema, rows: pa.Table) -> pa.Schema:
    """The columns of `rows` with the types that they have in `schema`, all nullable."""
    return pa.schema([pa.field(name, schema.field(name).type) for name in rows.column_names])


def _same_columns(held: pa.Schema | None, wanted: pa.Schema) -> bool:
    """Whether the columns are the same, in any order."""
    kinds: dict[str, Any] = {} if held is None else {field.name: field.type for field in held}
    return kinds == {field.name: field.type for field in wanted}
