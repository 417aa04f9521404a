"""A Delta table: each delivery is one commit, with the position in its metadata and its number as a transaction.

Data files are written here, and committed as what they replace and what they add. A commit succeeds only as the very
next version of the one that was read, so whatever another writer does in between is noticed.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from headwater.connectors.lake.columns import check_columns
from headwater.connectors.lake.failures import library_failing
from headwater.connectors.lake.folders import Folder, folder_url, s3_options
from headwater.connectors.lake.table import Change, DataFile, LakeTable, Moved, Version
from headwater.errors import TargetFailed
from headwater.system.objects.s3 import ATTEMPTS_MAX, CONNECT_SECONDS_MAX, REQUEST_SECONDS_MAX
from headwater.system.storage import Storage

OWNER = "headwater.sink"
STAMP, NUMBER = "headwater.stamp", "headwater.delivery"
"""What commits say of a delivery, and the table's configuration of whom it belongs to."""
LOG = "_delta_log"
FEATURES = frozenset({"timestampNtz", "appendOnly", "invariants"})
"""Features of a table that do not change what may be written into it."""
_NTZ = '"timestamp_ntz"'
_PLAIN_WRITER_MAX = 2
_S3_STORAGE = {
    # A commit is a file that must not be there yet, which the store itself sees to.
    "aws_conditional_put": "etag",
    "connect_timeout": f"{CONNECT_SECONDS_MAX:.0f}s",
    "timeout": f"{REQUEST_SECONDS_MAX:.0f}s",
    "max_retries": f"{ATTEMPTS_MAX - 1}",
    "retry_timeout": f"{REQUEST_SECONDS_MAX:.0f}s",
}
LOOKED_THROUGH_MAX = 1000
"""How many commits of others the last delivery is looked for behind; it is unknown if there are more."""


class DeltaLakeTable(LakeTable):
    """A table at a path or in S3."""

    def __init__(self, place: str | Path, retention: timedelta) -> None:
        self._folder, self._retention = Folder(folder_url(place)), retention
        self._begun: tuple[DeltaTable, pa.Schema | None] | None = None

    @property
    def address(self) -> str:
        return self._folder.url.location

    def fitted(self, schema: pa.Schema) -> pa.Schema:
        check_columns("Delta Lake", schema, _as_held)
        return _as_held(schema)

    def load(self, owner: str) -> Version | None:
        with _failing():
            table = self._opened()
            if table is None:
                return None
            self._check(table)
            number = table.transaction_version(_transaction(owner)) or 0
            found = pa.table(table.get_add_actions(flatten=True))
            files = [
                DataFile(path, rows or 0, size)
                for path, rows, size in zip(
                    found["path"].to_pylist(),
                    found["num_records"].to_pylist(),
                    found["size_bytes"].to_pylist(),
                    strict=True,
                )
            ]
            held_by = table.metadata().configuration.get(OWNER)
            schema = pa.schema(table.schema().to_arrow())
            return Version(number, self._stamp(table, owner, number), held_by, schema, tuple(files), table)

    def create(self, schema: pa.Schema, owner: str) -> Version:
        hours = max(1, math.ceil(self._retention / timedelta(hours=1)))
        configuration = {OWNER: owner, "delta.deletedFileRetentionDuration": f"interval {hours} hours"}
        self._folder.prepare()
        with _failing():
            try:
                DeltaTable.create(
                    self._uri,
                    Schema.from_arrow(schema),
                    configuration=configuration,
                    storage_options=self._storage(),
                    raise_if_key_not_exists=False,
                )
            except CommitFailedError as error:
                raise Moved from error
        version = self.load(owner)
        if version is None:
            raise Moved
        return version

    def begin(self, version: Version, schema: pa.Schema | None) -> None:
        self._begun = version.base, schema

    def write(self, rows: pa.Table, position: str) -> Sequence[DataFile]:
        written = self._folder.write(f"at-{position.replace(':', '-').replace(',', '-')}", rows)
        return [DataFile(written.path, written.rows, written.size, _statistics(rows))]

    def read(self, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
        return self._folder.read(file.path, columns)

    def commit(self, change: Change) -> None:
        assert self._begun is not None, "it was begun"
        table, schema = self._begun
        with _failing():
            table = self._prepared(table, schema, change.owner)
            now = time.time_ns() // 1_000_000
            added = [AddAction(each.path, each.size, {}, now, True, each.entry) for each in change.added]
            removed = [RemoveAction(each.path, True, now, each.size, {}) for each in change.removed]
            properties = CommitProperties(
                custom_metadata={OWNER: change.owner, STAMP: change.stamp, NUMBER: str(change.number)},
                max_commit_retries=0,
                app_transactions=[Transaction(_transaction(change.owner), change.number)],
            )
            # To overwrite is to remove all files; that is what new columns come with.
            actions: list[AddAction | RemoveAction] = [*added] if schema is not None else [*removed, *added]
            mode = "overwrite" if schema is not None else "append"
            columns = table.schema() if schema is None else Schema.from_arrow(schema)
            try:
                table.create_write_transaction(actions, mode, columns, commit_properties=properties)
            except CommitFailedError as error:
                found = self._opened()
                if found is None or found.version() != table.version():
                    raise Moved from error
                raise
        if self._folder.is_local:
            self._sync(table.version() + 1)

    def _prepared(self, table: DeltaTable, schema: pa.Schema | None, owner: str) -> DeltaTable:
        """The table with what a commit cannot change: whom it belongs to, and the feature that a new column needs."""
        if table.metadata().configuration.get(OWNER) != owner:
            table.alter.set_table_properties({OWNER: owner}, raise_if_not_exists=False)
            table = cast("DeltaTable", self._opened())
        if schema is not None and _NTZ in Schema.from_arrow(schema).to_json():
            features = table.protocol().writer_features or ()
            if "timestampNtz" not in features:
                table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
                table = cast("DeltaTable", self._opened())
        return table

    def clean(self, before: datetime) -> None:
        with _failing():
            table = self._opened()
            if table is None:
                return
            # Whole hours are what the library takes; the time since `before` was computed does not make one more.
            hours = math.ceil((datetime.now(UTC) - before - timedelta(minutes=1)) / timedelta(hours=1))
            hours = max(0, hours)
            unused = table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
            if unused:
                table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)

    def close(self) -> None:
        """Nothing stays open."""

    @property
    def _uri(self) -> str:
        url = self._folder.url
        return url.path if self._folder.is_local else f"s3://{url.path}"

    def _storage(self) -> dict[str, str] | None:
        """How S3 is reached. Credentials come from the environment."""
        if self._folder.is_local:
            return None
        options, storage = s3_options(self._folder.url), dict(_S3_STORAGE)
        if endpoint := options.get("endpoint_override"):
            full = endpoint if "://" in endpoint else f"{options.get('scheme', 'https')}://{endpoint}"
            storage |= {"AWS_ENDPOINT_URL": full, "AWS_ALLOW_HTTP": "true" if full.startswith("http://") else "false"}
        if region := options.get("region"):
            storage["AWS_REGION"] = region
        return storage

    def _opened(self) -> DeltaTable | None:
        """The table in its latest version; None if there is none."""
        if self._folder.is_local and not Path(self._folder.path(LOG)).is_dir():
            # The library would make the directory.
            if Path(self._folder.url.path).exists() and not Path(self._folder.url.path).is_dir():
                raise TargetFailed(f"{self.address} is not a directory")
            return None
        try:
            return DeltaTable(self._uri, storage_options=self._storage())
        except TableNotFoundError:
            return None

    def _stamp(self, table: DeltaTable, owner: str, number: int) -> str | None:
        """The stamp of the last delivery; None if the table was restored to an earlier version since.

        The commits are read here, because `DeltaTable.history` stops every other thread until the store answers.
        """
        newest = table.version()
        for version in range(newest, max(-1, newest - LOOKED_THROUGH_MAX), -1):
            content = self._folder.get(f"{LOG}/{version:020}.json")
            if content is None:
                return None
            actions = [json.loads(line) for line in content.splitlines() if b'"commitInfo"' in line]
            said: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
            if said.get("operation") == "RESTORE":
                return None
            if said.get(OWNER) == owner and STAMP in said:
                return (said[STAMP] or None) if said.get(NUMBER) == str(number) else None
        return None

    def _check(self, table: DeltaTable) -> None:
        """Raises `TargetFailed` for a table with rules that a writer would have to know."""
        metadata, protocol = table.metadata(), table.protocol()
        if metadata.partition_columns:
            raise TargetFailed(f"{self.address} is partitioned; a sink only writes to unpartitioned tables", "refused")
        unknown = {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - FEATURES
        is_old = protocol.writer_features is None and protocol.min_writer_version > _PLAIN_WRITER_MAX
        if unknown or is_old or metadata.configuration.get("delta.appendOnly") == "true":
            named = ", ".join(sorted(unknown)) or "constraints, or a change feed, or that rows are only appended"
            raise TargetFailed(f"{self.address} uses features that sinks do not support: {named}", "refused")

    def _sync(self, version: int) -> None:
        """Puts a commit on the disk, which the library leaves to the operating system."""
        log = Path(self._folder.path(LOG))
        with (log / f"{version:020}.json").open("rb") as file:
            os.fsync(file.fileno())
        Storage().sync_directory(log)


def _transaction(owner: str) -> str:
    return f"headwater:{owner}"


def _statistics(rows: pa.Table) -> str:
    """What readers skip files by: the numbers of rows, and the least and greatest whole numbers and dates."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls = {}
    for field in rows.schema:
        if pat.is_integer(field.type) or pat.is_date32(field.type):
            found = pc.min_max(rows[field.name]).as_py()
            nulls[field.name] = rows[field.name].null_count
            if found["min"] is not None:
                low[field.name], high[field.name] = _json(found["min"]), _json(found["max"])
    return json.dumps({"numRecords": rows.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def _json(value: Any) -> Any:
    return value if isinstance(value, int) else value.isoformat()


def _as_held(schema: pa.Schema) -> pa.Schema:
    """A schema as the library gives it back."""
    return pa.schema(Schema.from_arrow(schema).to_arrow())


def _failing() -> AbstractContextManager[None]:
    return library_failing(DeltaError)
