"""What only Iceberg tables have: snapshots to go back to, maintenance by others, required columns, and partitions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from headwater.connectors.iceberg.target import Iceberg
from headwater.engine.sinks.port import PositionChanged
from headwater.errors import TargetFailed, UsageError
from tests.contract.sinks.lake import iceberg_catalog
from tests.lake.bringing import Bringer, same
from tests.lake.test_tables import texts


def made(directory: Path) -> Iceberg:
    return Iceberg(f"sqlite:///{directory}/catalog.db", table="shop.v", every=0)


def test_the_summary_of_a_snapshot_names_the_delivery(tmp_path: Path) -> None:
    brought = Bringer(made(tmp_path), ["key"])
    brought.bring(texts({1: "one"}))
    brought.bring(texts({1: "two"}))
    with iceberg_catalog(tmp_path) as catalog:
        table = catalog.load_table("shop.v")
        said = [each.summary.additional_properties for each in table.snapshots() if each.summary is not None]
        assert [each["headwater.stamp"] for each in said] == ["stamp 1", "stamp 2"]
        assert [each["total-records"] for each in said] == ["1", "1"]
        assert "commit.retry.num-retries" not in table.properties
        earlier = table.scan(snapshot_id=table.snapshots()[0].snapshot_id).to_arrow()
    assert earlier.to_pylist() == [{"key": 1, "text": "one"}]


def test_a_table_that_was_rolled_back_says_so_itself(tmp_path: Path) -> None:
    brought = Bringer(made(tmp_path), ["key"])
    brought.bring(texts({1: "one"}))
    brought.bring(texts({1: "two"}))
    with iceberg_catalog(tmp_path) as catalog:
        table = catalog.load_table("shop.v")
        with table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(table.snapshots()[0].snapshot_id)
    with pytest.raises(PositionChanged):
        brought.bring(texts({1: "three"}))
    again = Bringer(made(tmp_path), ["key"])
    assert again.stamp == "stamp 1"
    again.held, again.number = texts({1: "one"}), 5
    again.bring(texts({1: "three"}))
    assert same(again.rows(), texts({1: "three"}))


def test_a_delivery_gives_way_to_others(tmp_path: Path) -> None:
    brought = Bringer(made(tmp_path), ["key"])
    brought.bring(texts({1: "one"}))
    commit = brought.target.table.commit

    def overtaken(change: object) -> None:
        brought.target.table.commit = commit  # type: ignore[method-assign]
        with iceberg_catalog(tmp_path) as catalog, catalog.load_table("shop.v").transaction() as transaction:
            transaction.append(texts({}))
        commit(change)  # type: ignore[arg-type]

    brought.target.table.commit = overtaken  # type: ignore[method-assign]
    brought.bring(texts({1: "two"}))
    assert same(brought.rows(), texts({1: "two"}))
    assert Bringer(made(tmp_path), ["key"]).stamp == "stamp 2"


def test_a_row_without_a_required_value_is_refused(tmp_path: Path) -> None:
    columns = (NestedField(1, "key", LongType()), NestedField(2, "text", StringType(), required=True))
    with iceberg_catalog(tmp_path) as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.v", Schema(*columns), location=f"file://{tmp_path}/mine")
    brought = Bringer(made(tmp_path), ["key"])
    brought.bring(texts({1: "one", 2: None}))
    assert [row["key"] for row, _ in brought.refused] == [2]
    brought.bring(texts({1: None, 3: "three"}))
    assert [row["key"] for row, _ in brought.refused] == [2, 1]
    assert same(brought.rows(), texts({3: "three"}))


def test_a_partitioned_table_is_left_alone(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "key", LongType()), NestedField(2, "text", StringType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "key"))
    with iceberg_catalog(tmp_path) as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.v", schema, partition_spec=spec, location=f"file://{tmp_path}/mine")
    with pytest.raises(TargetFailed, match="is partitioned"):
        Bringer(made(tmp_path), ["key"])


def test_columns_of_another_type_are_told(tmp_path: Path) -> None:
    with iceberg_catalog(tmp_path) as catalog:
        catalog.create_namespace("shop")
        columns = pa.schema([("key", pa.string()), ("text", pa.string())])
        catalog.create_table("shop.v", columns, location=f"file://{tmp_path}/mine")
    with pytest.raises(TargetFailed, match="has different columns"):
        Bringer(made(tmp_path), ["key"]).bring(texts({1: "one"}))


@pytest.mark.parametrize("table", ["v", ".v", "shop."])
def test_a_table_needs_a_namespace(table: str) -> None:
    with pytest.raises(UsageError, match="is not the name of an Iceberg table"):
        Iceberg("sqlite:///x.db", table=table)


def test_no_secret_of_a_catalog_is_shown() -> None:
    target = Iceberg("https://user:hush@host/catalog?token=hush", table="shop.v")
    assert "hush" not in f"{target!r} {target.address}"
