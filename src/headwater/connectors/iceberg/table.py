"""A topic as an Iceberg table: its sealed segments are the table's data files, where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import NestedField

from headwater.connectors.iceberg.catalog import open_catalog
from headwater.errors import Determinate, UsageError
from headwater.log.port import Log

DELETED, DELETED_IN_TABLES = "_deleted", "__deleted"
"""What marks a tombstone: in a segment, and in a table, where Iceberg needs the first name for itself."""
TOPIC, LOG = "headwater.topic", "headwater.log"
"""The properties that say what a table is made of."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a table came to: how many files it got and lost, and what it has now."""

    table: str
    added: int
    removed: int
    files: int
    records: int
    metadata: str


def register_topic(log: Log, topic: str, *, catalog: str, table: str, warehouse: str | None = None) -> Registration:
    """Makes the table what the sealed segments of the topic are now, in one snapshot; creates it if it is missing.

    Nothing is copied. Repeated, it adds new files, takes out those that compaction or retention removed, and follows
    changes of the schema. A topic with an archive gives its objects, another one its local files.

    `catalog` is `sqlite:///path`, the URL of a REST catalog, or a name of pyiceberg's configuration; `table` is
    `namespace.name`. Raises `UsageError`, and `Determinate` if another process changed the table meanwhile.
    """
    found = log.topic(topic)
    opened = open_catalog(catalog, warehouse=warehouse, archive=found.settings.archive)
    schema = _logical_schema(log, topic)
    held = _load(opened, table, schema, {TOPIC: topic, LOG: log.url})
    present = {task.file.file_path: task.file for task in held.scan().plan_files()}
    # Looked up last: what is registered is there.
    wanted = [_url(location) for location in log.maintenance.locations(topic, lasting=True)]
    added = [path for path in wanted if path not in present]
    removed = [file for path, file in present.items() if path not in set(wanted)]
    try:
        _change(held, schema, added, removed)
    except CommitFailedException as error:
        raise Determinate(
            f"Table {table} was changed by another process in the meantime.",
            hint="Nothing was registered; run it again.",
        ) from error
    except OSError as error:
        # A file that compaction has just replaced, a full disk, an archive that does not answer.
        raise Determinate(
            f"Table {table} could not be changed: {error}.", hint="Nothing was registered; run it again."
        ) from error
    tasks = list(held.scan().plan_files())
    records = sum(task.file.record_count for task in tasks)
    return Registration(table, len(added), len(removed), len(tasks), records, held.metadata_location)


def _logical_schema(log: Log, topic: str) -> pa.Schema:
    """The columns of the table: those of sealed segments, all nullable."""
    fields = [field for field in log.scan(topic, start="latest").schema if field.name != "_partition"]
    return pa.schema([field.with_name(DELETED_IN_TABLES) if field.name == DELETED else field for field in fields])


def _load(catalog: Catalog, name: str, schema: pa.Schema, made_of: dict[str, str]) -> Table:
    namespace, dot, _ = name.rpartition(".")
    if not dot or not namespace:
        raise UsageError(f"{name!r} is not the name of an Iceberg table.", hint="Write it as namespace.table.")
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(namespace)
        try:
            return catalog.create_table(name, schema=schema, properties=made_of)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise UsageError(
                f"Iceberg has no type for a column of topic {made_of[TOPIC]!r}: {error}",
                hint="Register a topic with other types, such as one that a view or a consumer fills.",
            ) from error
    if {key: table.properties.get(key) for key in made_of} != made_of:
        raise UsageError(
            f"Table {name} was not made of topic {made_of[TOPIC]!r} of this log.",
            hint="Name a table that does not exist, or drop this one: its files are the log's and stay.",
        )
    return table


def _change(table: Table, schema: pa.Schema, added: Sequence[str], removed: Iterable[DataFile]) -> None:
    """One commit: the schema, how names in files are found, and the files."""
    gone = list(removed)
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.union_by_name(schema)
        logical = transaction.table_metadata.schema()
        physical = Schema(*(_physical(field) for field in logical.fields), schema_id=logical.schema_id)
        mapping = NameMapping(physical.name_mapping.root).model_dump_json()
        if transaction.table_metadata.properties.get(TableProperties.DEFAULT_NAME_MAPPING) != mapping:
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
        if not added and not gone:
            return
        metadata = _with_schema(transaction.table_metadata, physical)
        with transaction.update_snapshot().overwrite() as snapshot:
            for file in gone:
                snapshot.delete_data_file(file)
            for file in parquet_files_to_data_files(io=table.io, table_metadata=metadata, file_paths=iter(added)):
                snapshot.append_data_file(file)


def _physical(field: NestedField) -> NestedField:
    return field.model_copy(update={"name": DELETED}) if field.name == DELETED_IN_TABLES else field


def _with_schema(metadata: TableMetadata, schema: Schema) -> TableMetadata:
    """The metadata as they would be if columns were called what they are called in files."""
    schemas = [schema if each.schema_id == schema.schema_id else each for each in metadata.schemas]
    return metadata.model_copy(update={"schemas": schemas})


def _url(location: str) -> str:
    return location if "://" in location else f"file://{Path(location).absolute()}"
