"""The formats of tables: how a target of each is made, and how a stranger reads what it holds."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from headwater.connectors.delta.target import Delta
from headwater.connectors.iceberg.target import Iceberg
from headwater.connectors.lake.target import LakeTarget
from headwater.connectors.parquet.target import Parquet
from tests.contract.sinks.lake import delta_files, iceberg_catalog, iceberg_files


class Format(ABC):
    """One format, with a table in a local directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @abstractmethod
    def target(self, **options: Any) -> LakeTarget:
        """A target of the table, as a new process would have it; without an interval unless the options have one."""

    @abstractmethod
    def read(self) -> pa.Table:
        """What a stranger reads."""

    @abstractmethod
    def listed(self) -> list[str]:
        """The paths of the files that the table has now."""

    def files(self) -> int:
        """How many files the table has now."""
        return len(self.listed())

    @abstractmethod
    def foreign(self, rows: pa.Table) -> None:
        """A table that somebody else made."""

    def stored(self) -> int:
        """How many Parquet files there are, whether they belong to the table or not."""
        return len(list(self.directory.rglob("*.parquet")))


class ParquetFormat(Format):
    def target(self, **options: Any) -> LakeTarget:
        return Parquet(self.directory, **{"every": 0, **options})

    def listed(self) -> list[str]:
        listed = json.loads((self.directory / "manifest.json").read_text())["files"]
        return [str(self.directory / name) for name in listed]

    def read(self) -> pa.Table:
        with duckdb.connect() as database:
            return database.read_parquet(self.listed(), union_by_name=True).to_arrow_table()

    def foreign(self, rows: pa.Table) -> None:
        self.directory.mkdir()
        pq.write_table(rows, self.directory / "mine.parquet")


class DeltaFormat(Format):
    """Read by DuckDB, from the files that the log of the table leads to, as its specification says."""

    def target(self, **options: Any) -> LakeTarget:
        return Delta(self.directory, **{"every": 0, **options})

    def read(self) -> pa.Table:
        listed = delta_files(self.directory)
        if not listed:
            return pa.table(DeltaTable(self.directory).scan().read_all())
        with duckdb.connect() as database:
            found = database.read_parquet(listed, union_by_name=True).to_arrow_table()
        # The library reads the same.
        assert DeltaTable(self.directory).count() == found.num_rows
        return found

    def listed(self) -> list[str]:
        return delta_files(self.directory)

    def foreign(self, rows: pa.Table) -> None:
        write_deltalake(self.directory, rows)


class IcebergFormat(Format):
    """Read by DuckDB, from the files of the current snapshot; pyiceberg reads the same."""

    def target(self, **options: Any) -> LakeTarget:
        return Iceberg(f"sqlite:///{self.directory}/catalog.db", table="shop.v", **{"every": 0, **options})

    def read(self) -> pa.Table:
        with iceberg_catalog(self.directory) as catalog:
            scanned = catalog.load_table("shop.v").scan().to_arrow()
        listed = iceberg_files(self.directory)
        if not listed:
            return scanned
        with duckdb.connect() as database:
            found = database.read_parquet(listed, union_by_name=True).to_arrow_table()
        assert scanned.num_rows == found.num_rows
        return found

    def listed(self) -> list[str]:
        return iceberg_files(self.directory)

    def foreign(self, rows: pa.Table) -> None:
        self.directory.mkdir()
        with iceberg_catalog(self.directory) as catalog:
            catalog.create_namespace("shop")
            catalog.create_table("shop.v", rows.schema, location=f"file://{self.directory}/mine").append(rows)


FORMATS: dict[str, type[Format]] = {"delta": DeltaFormat, "iceberg": IcebergFormat, "parquet": ParquetFormat}
