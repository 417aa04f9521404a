"""An Iceberg table that holds a view: each delivery is one snapshot, with the position in its summary."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    _dataframe_to_data_files,
    _pyarrow_to_schema_without_ids,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table, Transaction
from sqlalchemy.exc import SQLAlchemyError

from headwater.connectors.iceberg.catalog import open_catalog
from headwater.connectors.lake.columns import check_columns
from headwater.connectors.lake.failures import library_failing
from headwater.connectors.lake.folders import Folder, folder_url
from headwater.connectors.lake.table import Change, DataFile, LakeTable, Moved, Version
from headwater.errors import TargetFailed, UsageError
from headwater.system.objects.port import StoreUrl

OWNER = "headwater.sink"
STAMP, NUMBER = "headwater.stamp", "headwater.delivery"
"""What the summary of a snapshot says of a delivery, and the table's properties of whom it belongs to."""
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "write.parquet.compression-codec": "zstd",
}
_NO_RETRIES = {"commit.retry.num-retries": "0"}
_HINT = "Write it as namespace.table."


class IcebergTable(LakeTable):
    """A table of a catalog, in its current snapshot."""

    def __init__(self, catalog: str, name: str, warehouse: str | Path | None) -> None:
        namespace, dot, short = name.rpartition(".")
        if not dot or not namespace or not short:
            raise UsageError(f"{name!r} is not the name of an Iceberg table.", hint=_HINT)
        self._address, self._name, self._namespace = catalog, name, namespace
        self._warehouse: StoreUrl | None = None if warehouse is None else folder_url(warehouse)
        self._catalog: Catalog | None = None
        self._file = _sqlite_file(catalog)
        self._inode = 0
        self._begun: tuple[Table, Transaction] | None = None
        self._io: FileIO = PyArrowFileIO()

    @property
    def address(self) -> str:
        shown = self._address.partition("?")[0]
        if "@" in shown:
            shown = f"{shown.partition('://')[0]}://{shown.rpartition('@')[2]}"
        return f"{shown} {self._name}"

    def fitted(self, schema: pa.Schema) -> pa.Schema:
        check_columns("Iceberg", schema, _as_held, _plain)
        return _as_held(schema)

    def load(self, owner: str) -> Version | None:
        with _failing():
            catalog = self._opened()
            try:
                table = catalog.load_table(self._name)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None
            if not table.spec().is_unpartitioned():
                raise TargetFailed(
                    f"{self.address} is partitioned; a sink only writes to unpartitioned tables", "refused"
                )
            self._io, files = table.io, []
            for task in table.scan().plan_files():
                if task.delete_files:
                    raise TargetFailed(
                        f"{self.address} has delete files from another program; rewrite its data files first", "refused"
                    )
                data = task.file
                files.append(DataFile(data.file_path, data.record_count, data.file_size_in_bytes, data))
            said = _delivery(table, owner)
            schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
            held_by = table.properties.get(OWNER)
            number = int(said.get(NUMBER, "0"))
            return Version(number, said.get(STAMP) or None, held_by, schema, tuple(files), table)

    def create(self, schema: pa.Schema, owner: str) -> Version:
        with _failing():
            catalog = self._opened()
            catalog.create_namespace_if_not_exists(self._namespace)
            try:
                catalog.create_table(self._name, schema=schema, properties={**_PROPERTIES, OWNER: owner})
            except TableAlreadyExistsError as error:
                raise Moved from error
        version = self.load(owner)
        if version is None:
            raise Moved
        return version

    def begin(self, version: Version, schema: pa.Schema | None) -> None:
        table: Table = version.base
        # Only in this process: a commit that is made again on top of another one would not be that of this delivery.
        table.metadata = table.metadata.model_copy(update={"properties": {**table.properties, **_NO_RETRIES}})
        transaction = table.transaction()
        if schema is not None:
            # A name that stays may get another type, which makes it another column.
            with transaction.update_schema(allow_incompatible_changes=True) as update:
                for name in table.schema().column_names:
                    if "." not in name:
                        update.delete_column(name)
            with transaction.update_schema(allow_incompatible_changes=True) as update:
                update.union_by_name(_fresh(schema))
        self._begun = table, transaction

    def write(self, rows: pa.Table, position: str) -> Sequence[DataFile]:
        assert self._begun is not None, "it was begun"
        table, transaction = self._begun
        with _failing():
            written = _dataframe_to_data_files(transaction.table_metadata, rows, table.io)
            return [DataFile(each.file_path, each.record_count, each.file_size_in_bytes, each) for each in written]

    def read(self, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
        with _failing(), self._io.new_input(file.path).open() as stream, pq.ParquetFile(stream) as opened:
            found = opened.read(columns=None if columns is None else list(columns))
        return _without_metadata(found)

    def commit(self, change: Change) -> None:
        assert self._begun is not None, "it was begun"
        table, transaction = self._begun
        said = {OWNER: change.owner, STAMP: change.stamp, NUMBER: str(change.number)}
        with _failing():
            if table.properties.get(OWNER) != change.owner:
                transaction.set_properties({OWNER: change.owner})
            try:
                with transaction.update_snapshot(snapshot_properties=said).overwrite() as snapshot:
                    for each in change.removed:
                        snapshot.delete_data_file(each.entry)
                    for each in change.added:
                        snapshot.append_data_file(each.entry)
                transaction.commit_transaction()
            except CommitFailedException as error:
                raise Moved from error

    def clean(self, before: datetime) -> None:
        with _failing(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = self._opened().load_table(self._name)
            current = table.metadata.current_snapshot_id
            old = [
                each.snapshot_id
                for each in table.snapshots()
                if each.snapshot_id != current and each.timestamp_ms < before.timestamp() * 1000
            ]
            if old:
                table.maintenance.expire_snapshots().older_than(before).commit()
                table = table.refresh()
            kept = _referenced(table)
            for kind, suffix in (("data", ".parquet"), ("metadata", ".avro")):
                folder = Folder(self._folder_of(f"{table.location()}/{kind}"))
                for name, written_at in folder.files().items():
                    is_old = written_at.astimezone(UTC) < before
                    if name.endswith(suffix) and is_old and _path(f"{table.location()}/{kind}/{name}") not in kept:
                        folder.remove(name)

    def close(self) -> None:
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog.close()

    def _opened(self) -> Catalog:
        inode = 0
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            inode = self._file.stat().st_ino if self._file.exists() else 0
        if self._catalog is None or (self._file is not None and inode != self._inode):
            if self._catalog is not None:
                self._catalog.close()
            place = None if self._warehouse is None else self._warehouse.location
            reached = str(self._warehouse) if self._warehouse is not None else None
            self._catalog = open_catalog(self._address, warehouse=place, archive=reached)
            self._inode = self._file.stat().st_ino if self._file is not None and self._file.exists() else 0
        return self._catalog

    def _folder_of(self, location: str) -> StoreUrl:
        found = folder_url(location)
        options = self._warehouse.options if self._warehouse is not None else ()
        return StoreUrl(found.scheme, found.path, options if found.scheme == "s3" else ())


def _sqlite_file(catalog: str) -> Path | None:
    scheme, _, rest = catalog.partition("://")
    if scheme != "sqlite":
        return None
    return Path(rest[1:]).absolute()


def _fresh(schema: pa.Schema) -> Schema:
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(schema))


def _delivery(table: Table, owner: str) -> dict[str, str]:
    """What the newest snapshot of the sink says; those of others, which maintain the table, are passed over."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        said = {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)
        if said.get(OWNER) == owner:
            return said
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return {}


def _referenced(table: Table) -> set[str]:
    """The paths of everything that the snapshots of the table need."""
    kept: set[str] = set()
    for snapshot in table.snapshots():
        kept.add(_path(snapshot.manifest_list))
        for manifest in snapshot.manifests(table.io):
            if _path(manifest.manifest_path) in kept:
                continue
            kept.add(_path(manifest.manifest_path))
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            kept.update(_path(entry.data_file.file_path) for entry in entries)
    return kept


def _path(location: str) -> str:
    return location.partition("://")[2] if "://" in location else location


def _without_metadata(rows: pa.Table) -> pa.Table:
    """Without the ids of fields, which would make equal types different."""
    fields = [pa.field(field.name, field.type) for field in rows.schema]
    return rows.replace_schema_metadata(None).cast(pa.schema(fields))


def _as_held(schema: pa.Schema) -> pa.Schema:
    """A schema as the library gives it back."""
    return schema_to_pyarrow(_fresh(schema), include_field_ids=False)


def _plain(kind: pa.DataType) -> str:
    """A type, as far as Iceberg tells it from others: whole numbers of up to 32 bits are one."""
    if pat.is_int8(kind) or pat.is_int16(kind):
        return "int32"
    if pat.is_timestamp(kind) and kind.tz is not None:
        return f"timestamp[{kind.unit}, UTC]"
    return str(kind).removeprefix("large_")


def _failing() -> AbstractContextManager[None]:
    return library_failing(RESTError, SQLAlchemyError, ValidationError, CommitFailedException)
