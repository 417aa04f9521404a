"""An application whose views were published by hand, so that commands which only read need no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from headwater.engine.arrangements import arrangement_of
from headwater.engine.definition import DefinedView, Definition
from headwater.engine.explanation import Explanation, Operator
from headwater.engine.opening import open_store
from headwater.engine.publication import BatchCommit
from headwater.engine.runs import RunWriter
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_position

SQL = "SELECT country, sum(amount) AS revenue FROM orders GROUP BY country"
COLUMNS = pa.schema([("country", pa.string()), ("revenue", pa.decimal128(12, 2)), ("tags", pa.list_(pa.string()))])
ROWS: list[dict[str, object]] = [
    {"country": "DE", "revenue": Decimal("12.50"), "tags": ["a", "b"]},
    {"country": "FR", "revenue": None, "tags": None},
]
SOURCE = f"""
import headwater as hw

app = hw.App("shop", log={{log!r}})
app.topic("orders", "id bigint, country string, amount decimal(12,2)", key="id")
app.view("revenue", {SQL!r})
"""


def write_application(directory: Path) -> Path:
    """The file of an application, whose log is beside it."""
    file = directory / "app.py"
    file.write_text(SOURCE.format(log=str(directory / "data")))
    return file


def definition(views: Mapping[str, str]) -> Definition:
    operators = {
        number: Operator(number, level, label, [], [], [], None, None, str(number))
        for number, level, label in ((2, 1, "table orders by id"), (10, 2, "aggregate by x"))
    }
    return Definition(
        views={name: DefinedView(sql, COLUMNS) for name, sql in views.items()},
        explanation=Explanation(operators=operators),
    )


def publish(directory: Path, *, sql: str = SQL) -> None:
    """Publishes the view at position 7, with some state of two operators."""
    EmbeddedLog(directory / "data", upkeep=False).close()
    table = pa.Table.from_pylist(
        [{"_hash": number, **row, "_w": 1} for number, row in enumerate(ROWS)],
        pa.schema([("_hash", pa.int64()), *COLUMNS, ("_w", pa.int64())]),
    )
    with open_store(directory / "data" / "pipelines" / "shop") as store:
        epoch = store.take_over()
        generation = store.open_generation("one", definition({"revenue": sql}))
        writer = RunWriter(store.blobs, name="test")
        for arrangement in (arrangement_of("revenue"), "2/rows", "10/rows", "10/sums"):
            writer.add(arrangement, table)
        added = writer.close()
        changes = {"revenue": [run for run in added if run.arrangement == arrangement_of("revenue")]}
        position = commit_position(7)
        store.commit(BatchCommit(generation.id, epoch, 1, position, added, changes=changes, promote=True))
