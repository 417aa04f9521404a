"""What is kept up to date: tables and streams as Parquet files, and one query over them.

Each table is a folder of files `0000.parquet`, `0001.parquet` and so on, to be taken in this order. Rows of a stream
only come. Rows of a table replace those with the same key; a row with `deleted` true takes its key away, whatever its
other columns say. `seq` orders the rows of all tables of a workload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FILE_ROWS = 500_000
UPDATES = 0.1
"""The part of a table's changes that are updates of rows there are, and again as many are deletes."""


@dataclass(frozen=True, slots=True)
class Table:
    """A topic of a workload, with a key if it is a table; `share` of the workload's rows are its own."""

    schema: str
    key: str | None
    share: float
    columns: Callable[[np.random.Generator, int], Mapping[str, pa.Array]]


@dataclass(frozen=True, slots=True)
class Workload:
    """A query over tables. `goal` is in rows or changes a second, `rows` how many there are in a usual run."""

    name: str
    title: str
    tables: Mapping[str, Table]
    sql: str
    goal: float
    rows: int


def _strings(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(prefix), pa.array(numbers).cast(pa.string()), "")


def _events(keys: int) -> Table:
    def columns(dice: np.random.Generator, rows: int) -> dict[str, pa.Array]:
        amounts = pa.array(dice.integers(0, 1000, rows))
        return {"key": _strings("key-", dice.integers(0, keys, rows)), "amount": amounts}

    return Table("key string, amount bigint", None, 1.0, columns)


def items(groups: int, values: int, share: float = 1.0) -> Table:
    """Rows of a table, each in one of this many groups."""

    def columns(dice: np.random.Generator, rows: int) -> dict[str, pa.Array]:
        return {"k": pa.array(dice.integers(0, groups, rows)), "v": pa.array(dice.integers(0, values, rows))}

    return Table("id bigint, k bigint, v bigint", "id", share, columns)


def _orders(share: float) -> Table:
    def columns(dice: np.random.Generator, rows: int) -> dict[str, pa.Array]:
        customers, amounts = pa.array(dice.integers(0, 100_000, rows)), pa.array(dice.integers(1, 500, rows))
        return {"customer": customers, "amount": amounts}

    return Table("id bigint, customer bigint, amount bigint", "id", share, columns)


def _customers(share: float) -> Table:
    def columns(dice: np.random.Generator, rows: int) -> dict[str, pa.Array]:
        return {"country": _strings("country-", dice.integers(0, 200, rows))}

    return Table("id bigint, country string", "id", share, columns)


_SUM = "SELECT key, count(*) AS n, sum(amount) AS total FROM events GROUP BY key"
_RANKED = """SELECT k, id, v FROM (
    SELECT k, id, v, row_number() OVER (PARTITION BY k ORDER BY {order}) AS place FROM items) WHERE place <= {limit}"""

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "sum", "count + sum by 200,000 string keys", {"events": _events(200_000)}, _SUM, 1_500_000, 20_000_000
        ),
        Workload("sum_many", "the same by 3,000,000 keys", {"events": _events(3_000_000)}, _SUM, 800_000, 20_000_000),
        Workload(
            "join",
            "join with a table that changes + aggregate",
            {"orders": _orders(0.9), "customers": _customers(0.1)},
            "SELECT c.country, count(*) AS n, sum(o.amount) AS total FROM orders o "
            "JOIN customers c ON c.id = o.customer GROUP BY c.country",
            600_000,
            6_000_000,
        ),
        Workload(
            "min_max",
            "min and max with deletes",
            {"items": items(50_000, 10_000)},
            "SELECT k, min(v) AS least, max(v) AS most FROM items GROUP BY k",
            200_000,
            3_000_000,
        ),
        Workload(
            "distinct",
            "count distinct",
            {"items": items(5_000, 1_000)},
            "SELECT k, count(DISTINCT v) AS n FROM items GROUP BY k",
            200_000,
            3_000_000,
        ),
        Workload(
            "top",
            "top 10 per group",
            {"items": items(20_000, 1_000_000)},
            _RANKED.format(order="v DESC, id", limit=10),
            200_000,
            3_000_000,
        ),
        Workload(
            "first",
            "row_number = 1 per key",
            {"items": items(500_000, 1_000_000)},
            _RANKED.format(order="v DESC, id", limit=1),
            200_000,
            3_000_000,
        ),
        Workload(
            "left_join",
            "left join with updates on both sides",
            {"orders": _orders(0.7), "customers": _customers(0.3)},
            "SELECT o.id, o.amount, c.country FROM orders o LEFT JOIN customers c ON c.id = o.customer",
            200_000,
            3_000_000,
        ),
    )
}


def write(workload: Workload, rows: int, directory: Path, seed: int = 1) -> None:
    """Writes the input of a workload with this many rows in all."""
    for number, (name, table) in enumerate(workload.tables.items()):
        folder = directory / name
        folder.mkdir(parents=True)
        dice = np.random.default_rng([seed, number])
        for file, part in enumerate(_parts(table, dice, max(1, int(rows * table.share)))):
            pq.write_table(part, folder / f"{file:04d}.parquet")


def _parts(table: Table, dice: np.random.Generator, rows: int) -> Iterator[pa.Table]:
    made = 0
    for start in range(0, rows, FILE_ROWS):
        count = min(FILE_ROWS, rows - start)
        columns = dict(table.columns(dice, count))
        if table.key is not None:
            ids, deleted, made = _ids(dice, count, made)
            columns = {table.key: pa.array(ids), **columns, "deleted": pa.array(deleted)}
        # Rows of all tables in one order: each is spread evenly over the time that the workload takes.
        seq = pa.array(((np.arange(start, start + count) + 0.5) / rows * 2**40).astype(np.int64))
        yield pa.table({**columns, "seq": seq})


def _ids(dice: np.random.Generator, count: int, made: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Keys of changes: most are new, some those of rows that came before, and as many of these are deleted."""
    kind = dice.random(count)
    new = (kind >= 2 * UPDATES) | (made + np.arange(count) < 10)
    number = made + np.cumsum(new)
    earlier = (dice.random(count) * np.maximum(number - 1, 1)).astype(np.int64)
    ids = np.where(new, number - 1, earlier)
    return ids, (kind < UPDATES) & ~new, int(number[-1])
