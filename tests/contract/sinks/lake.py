"""Tables of Parquet files as systems of the contract suite; strangers read them and change them."""

from __future__ import annotations

import json
import shutil
import tempfile
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy.exc import OperationalError

from headwater.connectors.lake.target import Keep
from headwater.connectors.registry import target_class
from headwater.engine.sinks.target import Target
from tests.contract.sinks.keyed import System

COLUMNS = pa.schema([pa.field("key", pa.int64()), pa.field("text", pa.string())])


class LakeSystem(System):
    """A directory with a table. While the system is down, a file is where the directory was."""

    refuses: ClassVar[bool] = False
    name: ClassVar[str]
    """The class of `hw.sinks`."""

    def __init__(self, keep: Keep) -> None:
        self._place, self.keep = tempfile.TemporaryDirectory(prefix="hw"), keep
        self.directory = Path(self._place.name) / "lake"
        self._there = self._new()
        self._lead_to(self._there)

    def _new(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._place.name))

    def _lead_to(self, there: Path) -> None:
        """Makes the directory another one, all at once: it is a link."""
        beside = self.directory.with_name("beside")
        beside.symlink_to(there)
        beside.replace(self.directory)

    def target(self) -> Target:
        made: Any = target_class(self.name)
        found: Target = made(**self.arguments())
        return found

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """What the class is called with."""

    def rows(self) -> dict[int, str]:
        if not self.directory.is_dir():
            return {}
        found = self.found()
        weights: Counter[tuple[int, str]] = Counter()
        for row in found.to_pylist():
            weights[row["key"], row["text"]] += row.get("_weight", 1)
        assert set(weights.values()) <= {0, 1}
        return {key: text for (key, text), weight in weights.items() if weight}

    @abstractmethod
    def found(self) -> pa.Table:
        """What a stranger reads there."""

    def put(self, key: int, text: str | None) -> None:
        before = self.rows().get(key)
        rows = [] if before is None else [{"key": key, "text": before, "_weight": -1}]
        rows += [] if text is None else [{"key": key, "text": text, "_weight": 1}]
        if self.keep == "changes":
            columns = [pa.field("_weight", pa.int64()), pa.field("_delivery", pa.int64())]
            history = pa.Table.from_pylist(rows, pa.schema([*COLUMNS, *columns, pa.field("_position", pa.string())]))
            self.append(history)
        else:
            self.replace(
                {**{k: v for k, v in self.rows().items() if k != key}, **({} if text is None else {key: text})}
            )

    @abstractmethod
    def append(self, rows: pa.Table) -> None:
        """Adds rows as another writer would."""

    @abstractmethod
    def replace(self, rows: dict[int, str]) -> None:
        """Replaces all rows as another writer would."""

    def lose(self) -> None:
        self._become(self._new())

    def back_up(self) -> Callable[[], None]:
        kept = self._new() / "kept"
        shutil.copytree(self._there, kept)

        def restore() -> None:
            self._become(Path(shutil.copytree(kept, self._new() / "restored")))

        return restore

    def _become(self, there: Path) -> None:
        before, self._there = self._there, there
        self._lead_to(there)
        shutil.rmtree(before)

    def stop(self) -> None:
        file = self.directory.with_name("file")
        file.write_text("This is no directory.")
        self._lead_to(file)

    def start(self) -> None:
        self._lead_to(self._there)

    def close(self) -> None:
        self._place.cleanup()


class ParquetSystem(LakeSystem):
    """A folder of Parquet files, which DuckDB reads."""

    name: ClassVar[str] = "Parquet"

    def arguments(self) -> dict[str, Any]:
        return {"folder": str(self.directory), "keep": self.keep, "every": 0}

    def found(self) -> pa.Table:
        manifest = self.directory / "manifest.json"
        if not manifest.exists():
            return COLUMNS.empty_table()
        files = [str(self.directory / name) for name in json.loads(manifest.read_text())["files"]]
        if not files:
            return COLUMNS.empty_table()
        with duckdb.connect() as database:
            return database.read_parquet(files, union_by_name=True).to_arrow_table()

    def append(self, rows: pa.Table) -> None:
        self._list(self._manifest()["files"], rows)

    def replace(self, rows: dict[int, str]) -> None:
        self._list([], pa.table([list(rows), list(rows.values())], schema=COLUMNS))

    def _manifest(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = json.loads((self.directory / "manifest.json").read_text())
        return found

    def _list(self, kept: list[str], rows: pa.Table) -> None:
        manifest = self._manifest()
        name = f"at-stranger-{len(list(self.directory.iterdir()))}.parquet"
        pq.write_table(rows, self.directory / name)
        files = [*kept, name]
        sizes = [(file, pq.read_metadata(self.directory / file).num_rows) for file in files]
        details = [{"path": file, "rows": count, "size": 1} for file, count in sizes]
        (self.directory / "manifest.json").write_text(json.dumps({**manifest, "files": files, "details": details}))


class DeltaSystem(LakeSystem):
    """A Delta table, read by DuckDB from the files that its log leads to."""

    name: ClassVar[str] = "Delta"

    def arguments(self) -> dict[str, Any]:
        return {"table": str(self.directory), "keep": self.keep, "every": 0}

    def found(self) -> pa.Table:
        listed = delta_files(self.directory)
        if not listed:
            return COLUMNS.empty_table()
        with duckdb.connect() as database:
            return database.read_parquet(listed, union_by_name=True).to_arrow_table()

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self.directory, rows, mode="append")

    def replace(self, rows: dict[int, str]) -> None:
        write_deltalake(self.directory, pa.table([list(rows), list(rows.values())], schema=COLUMNS), mode="overwrite")


class IcebergSystem(LakeSystem):
    """An Iceberg table with its catalog beside it, read by DuckDB from the files of the current snapshot."""

    name: ClassVar[str] = "Iceberg"

    def arguments(self) -> dict[str, Any]:
        return {"catalog": f"sqlite:///{self.directory}/catalog.db", "table": "shop.v", "keep": self.keep, "every": 0}

    def found(self) -> pa.Table:
        listed = iceberg_files(self.directory)
        if not listed:
            return COLUMNS.empty_table()
        with duckdb.connect() as database:
            return database.read_parquet(listed, union_by_name=True).to_arrow_table()

    def append(self, rows: pa.Table) -> None:
        with iceberg_catalog(self.directory) as catalog:
            catalog.load_table("shop.v").append(rows)

    def replace(self, rows: dict[int, str]) -> None:
        with iceberg_catalog(self.directory) as catalog:
            table = pa.table([list(rows), list(rows.values())], schema=COLUMNS)
            catalog.load_table("shop.v").overwrite(table)


@contextmanager
def iceberg_catalog(directory: Path, *, made: bool = False) -> Iterator[Catalog]:
    """The catalog in a directory; unless it is `made` already, it is made."""
    options = {"uri": f"sqlite:///{directory}/catalog.db", "init_catalog_tables": str(not made).lower()}
    catalog = load_catalog("default", type="sql", **options)
    try:
        yield catalog
    finally:
        catalog.close()


def iceberg_files(directory: Path, table: str = "shop.v") -> list[str]:
    """The files of the current snapshot, as the table's metadata and manifests say."""
    if not (directory / "catalog.db").exists():
        return []
    with iceberg_catalog(directory, made=True) as catalog:
        try:
            tasks = list(catalog.load_table(table).scan().plan_files())
        except (NoSuchTableError, OperationalError):
            # It is being made.
            return []
    assert all(not task.delete_files for task in tasks)
    return [task.file.file_path.removeprefix("file://") for task in tasks]


def delta_files(directory: Path) -> list[str]:
    """The files of a Delta table: those that its log has added, and not removed since, as its specification says."""
    listed: dict[str, None] = {}
    for entry in sorted((directory / "_delta_log").glob("*.json")):
        for line in entry.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                listed[action["add"]["path"]] = None
            if "remove" in action:
                listed.pop(action["remove"]["path"], None)
    return [str(directory / path) for path in listed]


SYSTEMS: dict[str, Callable[[], LakeSystem]] = {
    "delta-changes": lambda: DeltaSystem("changes"),
    "delta-content": lambda: DeltaSystem("content"),
    "iceberg-changes": lambda: IcebergSystem("changes"),
    "iceberg-content": lambda: IcebergSystem("content"),
    "parquet-changes": lambda: ParquetSystem("changes"),
    "parquet-content": lambda: ParquetSystem("content"),
}
