"""Topics as Iceberg tables without a copy: pyiceberg, DuckDB and pyarrow read what the log reads."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from headwater.connectors.iceberg.table import DELETED, DELETED_IN_TABLES, Registration, register_topic
from headwater.errors import UsageError
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock
from tests.archives.servers import S3Server

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SCHEMA = "id bigint, name string, amount decimal(12,2), at timestamp, tags array<string>, kinds map<string,int>"
ROW = {"name": "Ada", "amount": "9.50", "at": "2026-01-01T10:00:00Z", "tags": ["a", "b"], "kinds": {"x": 1}}


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake/catalog.db"


def fill(log: EmbeddedLog, *keys: int) -> None:
    log.append("orders", [{**ROW, "id": key} for key in keys])
    log.seal("orders")


def table(tmp_path: Path, name: str = "shop.orders", **properties: str) -> Table:
    """What a stranger finds in the catalog."""
    opened = load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/lake/catalog.db", **properties)
    return opened.load_table(name)


def expected(log: EmbeddedLog) -> list[dict[str, object]]:
    """What the log has, in the names of the table."""
    records = log.scan("orders").drop_columns(["_partition"])
    names = [DELETED_IN_TABLES if name == DELETED else name for name in records.column_names]
    return sorted(records.rename_columns(names).to_pylist(), key=lambda row: row["_offset"])


def fetched(sql: str, **tables: pa.Table) -> list[tuple[object, ...]]:
    """What DuckDB answers."""
    with duckdb.connect() as connection:
        for name, content in tables.items():
            connection.register(name, content)
        return connection.execute(sql).fetchall()


def rows(found: Table) -> list[dict[str, object]]:
    return sorted(found.scan().to_arrow().to_pylist(), key=lambda row: row["_offset"])


def files(found: Table) -> set[str]:
    return {task.file.file_path.removeprefix("file://") for task in found.scan().plan_files()}


def test_a_topic_is_a_table_that_grows(log: EmbeddedLog, tmp_path: Path, catalog: str) -> None:
    log.create("orders", SCHEMA, key="id")
    empty = register_topic(log, "orders", catalog=catalog, table="shop.orders")
    assert (empty.added, empty.files, empty.records) == (0, 0, 0)
    fill(log, 1, 2)
    log.delete("orders", [{"id": 1}])
    log.seal("orders")
    first = register_topic(log, "orders", catalog=catalog, table="shop.orders")
    assert (first.added, first.removed, first.files, first.records) == (2, 0, 2, 3)
    again = register_topic(log, "orders", catalog=catalog, table="shop.orders")
    assert (again.added, again.removed, again.metadata) == (0, 0, first.metadata)
    fill(log, 3)
    grown = register_topic(log, "orders", catalog=catalog, table="shop.orders")
    assert (grown.added, grown.removed, grown.files, grown.records) == (1, 0, 3, 4)
    found = table(tmp_path)
    assert rows(found) == expected(log)
    assert files(found) == {str(file) for file in log.files("orders")}
    assert not list((tmp_path / "lake").rglob("*.parquet")), "nothing is copied"


def test_duckdb_and_pyarrow_read_it(log: EmbeddedLog, tmp_path: Path, catalog: str) -> None:
    log.create("orders", SCHEMA, key="id")
    fill(log, 1, 2)
    fill(log, 3)
    register_topic(log, "orders", catalog=catalog, table="shop.orders")
    found = table(tmp_path)
    shown = found.scan().to_arrow()
    total = fetched("SELECT count(*), sum(amount), max(_offset) FROM shown WHERE NOT __deleted", shown=shown)
    assert total == [(3, Decimal("28.50"), 2)]
    named = sorted(files(found))
    assert fetched(f"SELECT count(*) FROM read_parquet({named!r})") == [(3,)]
    assert sum(pq.read_table(file).num_rows for file in named) == shown.num_rows == 3
    assert found.scan(row_filter="id = 3").to_arrow()["id"].to_pylist() == [3]


def test_the_schema_follows_the_topic(log: EmbeddedLog, tmp_path: Path, catalog: str) -> None:
    log.create("orders", "id int, price float", key="id")
    log.append("orders", [{"id": 1, "price": 1.5}])
    log.seal("orders")
    register_topic(log, "orders", catalog=catalog, table="shop.orders")
    log.alter("orders", schema="id bigint, price double, note string")
    log.append("orders", [{"id": 1 << 40, "price": 2.5, "note": "large"}])
    log.seal("orders")
    register_topic(log, "orders", catalog=catalog, table="shop.orders")
    found = table(tmp_path)
    assert [(row["id"], row["price"], row["note"]) for row in rows(found)] == [(1, 1.5, None), (1 << 40, 2.5, "large")]
    # A table that is made of old and new files at once is the same.
    register_topic(log, "orders", catalog=catalog, table="shop.second")
    assert rows(table(tmp_path, "shop.second")) == rows(found) == expected(log)


def test_what_compaction_replaces_leaves_the_table(log: EmbeddedLog, tmp_path: Path, catalog: str) -> None:
    log.create("orders", SCHEMA, key="id", cleanup="compact")
    fill(log, 1, 2)
    fill(log, 2, 3)
    register_topic(log, "orders", catalog=catalog, table="shop.orders")
    log.compact("orders")
    done = register_topic(log, "orders", catalog=catalog, table="shop.orders")
    assert (done.added, done.removed, done.records) == (1, 2, 3)
    assert rows(table(tmp_path)) == expected(log)


def test_what_retention_deletes_leaves_the_table(
    log: EmbeddedLog, tmp_path: Path, catalog: str, clock: ManualClock
) -> None:
    log.create("orders", SCHEMA, key="id", retention_age=timedelta(days=1))
    fill(log, 1)
    register_topic(log, "orders", catalog=catalog, table="shop.orders")
    clock.advance(timedelta(days=2))
    fill(log, 2)
    log.upkeep()
    assert register_topic(log, "orders", catalog=catalog, table="shop.orders").removed == 1
    assert [row["id"] for row in rows(table(tmp_path))] == [2]
    clock.advance(timedelta(days=2))
    log.upkeep()
    assert register_topic(log, "orders", catalog=catalog, table="shop.orders").records == 0
    assert rows(table(tmp_path)) == []


def test_of_a_topic_with_an_archive_the_table_has_the_objects(
    log: EmbeddedLog, tmp_path: Path, catalog: str, archive: str, server: S3Server
) -> None:
    log.create("orders", SCHEMA, key="id", archive=archive)
    fill(log, 1, 2)
    waiting = register_topic(log, "orders", catalog=catalog, table="shop.orders")
    assert waiting.files == 0, "a local file would not last"
    log.upkeep()
    assert register_topic(log, "orders", catalog=catalog, table="shop.orders").added == 1
    log.alter("orders", retention_bytes=1)
    log.upkeep()
    done = register_topic(log, "orders", catalog=catalog, table="shop.orders")
    assert (done.added, done.removed, done.records) == (0, 0, 2)
    properties = {"s3.endpoint": server.url}
    assert all(path.startswith("s3://bucket/") for path in files(table(tmp_path, **properties)))
    assert rows(table(tmp_path, **properties)) == expected(log)


def test_an_archive_in_a_directory_with_a_space(log: EmbeddedLog, tmp_path: Path, catalog: str) -> None:
    log.create("orders", SCHEMA, key="id", archive=tmp_path / "cold storage", retention_bytes=1)
    fill(log, 1, 2)
    log.upkeep()
    assert register_topic(log, "orders", catalog=catalog, table="shop.orders").added == 1
    assert rows(table(tmp_path)) == expected(log)


@pytest.mark.parametrize(("name", "said"), [("orders", "namespace.table"), ("", "namespace.table")])
def test_a_wrong_name_is_refused(log: EmbeddedLog, catalog: str, name: str, said: str) -> None:
    log.create("orders", SCHEMA)
    with pytest.raises(UsageError) as raised:
        register_topic(log, "orders", catalog=catalog, table=name)
    assert said in raised.value.hint


def test_a_table_of_something_else_is_refused(log: EmbeddedLog, catalog: str) -> None:
    log.create("orders", SCHEMA)
    log.create("others", SCHEMA)
    register_topic(log, "orders", catalog=catalog, table="shop.orders")
    with pytest.raises(UsageError, match="was not made of topic 'others'"):
        register_topic(log, "others", catalog=catalog, table="shop.orders")


@pytest.mark.parametrize("address", ["nowhere", "ftp://host/catalog"])
def test_an_unknown_catalog_is_refused(log: EmbeddedLog, address: str) -> None:
    log.create("orders", SCHEMA)
    with pytest.raises(UsageError) as raised:
        register_topic(log, "orders", catalog=address, table="shop.orders")
    assert "sqlite:///" in raised.value.hint


def test_a_large_topic_in_many_files(log: EmbeddedLog, tmp_path: Path, catalog: str) -> None:
    log.create("orders", "id bigint, amount double", partitions=3)
    for part in range(4):
        numbers = pa.array(range(part * 1000, part * 1000 + 1000))
        log.append("orders", pa.table({"id": numbers, "amount": numbers.cast(pa.float64())}))
        log.seal("orders")
    done: Registration = register_topic(log, "orders", catalog=catalog, table="shop.orders")
    assert done.records == 4000
    assert sorted(table(tmp_path).scan().to_arrow()["id"].to_pylist()) == list(range(4000))
