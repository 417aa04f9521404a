"""What only Delta tables have: versions that can be restored, required columns, features, and tables of others."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from headwater.connectors.delta.target import Delta
from headwater.engine.sinks.port import PositionChanged
from headwater.errors import TargetFailed
from tests.lake.bringing import Bringer, same
from tests.lake.test_tables import COLUMNS, texts


def made(directory: Path) -> Delta:
    return Delta(directory, every=0)


def test_a_restored_table_gets_the_content_again(tmp_path: Path) -> None:
    brought = Bringer(made(tmp_path), ["key"])
    brought.bring(texts({1: "one"}))
    brought.bring(texts({1: "two"}))
    DeltaTable(tmp_path).restore(1)
    with pytest.raises(PositionChanged):
        brought.bring(texts({1: "three"}))
    again = Bringer(made(tmp_path), ["key"])
    assert again.stamp is None
    again.bring(texts({1: "three"}))
    assert same(again.rows(), texts({1: "three"}))


def test_others_may_maintain_the_table(tmp_path: Path) -> None:
    brought = Bringer(made(tmp_path), ["key"])
    for number in range(3):
        brought.bring(texts(dict.fromkeys(range(number + 1), f"{number}")))
    table = DeltaTable(tmp_path)
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    for number in range(30):
        DeltaTable(tmp_path).alter.set_table_properties({"owned.by": f"{number}"}, raise_if_not_exists=False)
    brought.bring(texts({7: "seven"}))
    assert Bringer(made(tmp_path), ["key"]).stamp == "stamp 4"
    assert same(brought.rows(), texts({7: "seven"}))


def test_a_delivery_gives_way_to_maintenance(tmp_path: Path) -> None:
    brought = Bringer(made(tmp_path), ["key"])
    brought.bring(texts({1: "one"}))
    commit = brought.target.table.commit

    def overtaken(change: object) -> None:
        brought.target.table.commit = commit  # type: ignore[method-assign]
        DeltaTable(tmp_path).alter.set_table_properties({"owned.by": "them"}, raise_if_not_exists=False)
        commit(change)  # type: ignore[arg-type]

    brought.target.table.commit = overtaken  # type: ignore[method-assign]
    brought.bring(texts({1: "two"}))
    assert same(brought.rows(), texts({1: "two"}))


def test_a_row_without_a_required_value_is_refused(tmp_path: Path) -> None:
    required = pa.schema([pa.field("key", pa.int64()), pa.field("text", pa.string(), nullable=False)])
    DeltaTable.create(str(tmp_path), Schema.from_arrow(required))
    brought = Bringer(made(tmp_path), ["key"])
    brought.bring(texts({1: "one", 2: None}))
    assert [row["key"] for row, _ in brought.refused] == [2]
    assert "'text'" in brought.refused[0][1]
    brought.bring(texts({1: None, 2: "two", 3: "three"}))
    assert [row["key"] for row, _ in brought.refused] == [2, 1]
    assert same(brought.rows(), texts({2: "two", 3: "three"}))


def test_tables_with_other_rules_are_left_alone(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "parts", texts({1: "one"}), partition_by=["key"])
    with pytest.raises(TargetFailed, match="is partitioned"):
        Bringer(made(tmp_path / "parts"), ["key"])
    write_deltalake(tmp_path / "feed", texts({1: "one"}), configuration={"delta.enableChangeDataFeed": "true"})
    with pytest.raises(TargetFailed, match="features that sinks do not support"):
        Bringer(made(tmp_path / "feed"), ["key"])
    DeltaTable.create(str(tmp_path / "other"), Schema.from_arrow(pa.schema([("key", pa.string())])))
    with pytest.raises(TargetFailed, match="has different columns"):
        Bringer(made(tmp_path / "other"), ["key"]).bring(texts({1: "one"}))


def test_a_commit_names_its_delivery_and_the_retention(tmp_path: Path) -> None:
    brought = Bringer(Delta(tmp_path, every=0, retention=timedelta(days=2)), ["key"])
    brought.bring(texts({1: "one"}))
    table = DeltaTable(tmp_path)
    assert table.transaction_version("headwater:shop.out") == 1
    newest = table.history(1)[0]
    assert (newest["headwater.sink"], newest["headwater.stamp"]) == ("shop.out", "stamp 1")
    configuration = table.metadata().configuration
    assert configuration["delta.deletedFileRetentionDuration"] == "interval 48 hours"
    statistics = json.loads(pa.table(table.get_add_actions()).to_pylist()[0].get("stats") or "{}")
    assert statistics or pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist() == [1]
    assert pa.schema(table.schema().to_arrow()).names == COLUMNS.names


def test_a_column_that_needs_a_feature_comes_later(tmp_path: Path) -> None:
    brought = Bringer(made(tmp_path), ["key"])
    brought.bring(texts({1: "one"}))
    assert DeltaTable(tmp_path).protocol().writer_features is None
    brought.held = None
    rows = texts({1: "one"}).append_column("local", pa.array([0], pa.timestamp("us")))
    brought.bring(rows)
    assert same(brought.rows(), rows)
    assert DeltaTable(tmp_path).to_pyarrow_table()["local"].to_pylist() == rows["local"].to_pylist()
