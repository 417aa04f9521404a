"""Records of a topic that holds a view: rows as they are, JSON texts, or Debezium's change events."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa

from headwater.cdc.debezium import from_debezium, to_debezium
from headwater.engine.sinks.key_texts import key_texts
from headwater.engine.sinks.target import Delivery
from headwater.model.encoding import json_rows, python_rows
from headwater.model.position import START
from headwater.model.record import Record
from headwater.model.rows import parse_json_lines, to_arrow
from headwater.model.types import Offset

Format = Literal["rows", "json", "debezium"]
_TEXTS = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())])


class Writing(ABC):
    """How rows of a view, with a key, are written as records of a topic."""

    @abstractmethod
    def schema(self, columns: pa.Schema) -> pa.Schema:
        """The columns of the topic, for those of the view."""

    @abstractmethod
    def key(self, key: Sequence[str]) -> tuple[str, ...]:
        """The key of the topic, for that of the sink."""

    @abstractmethod
    def records(self, delivery: Delivery, key: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """The records to append, one for each upsert in their order and then others, and the keys to delete."""

    @abstractmethod
    def rows(self, table: pa.Table, columns: pa.Schema, key: Sequence[str]) -> pa.Table:
        """The rows of the view that the newest records of a topic are."""


class Rows(Writing):
    """The view's columns; a row that is gone is a tombstone."""

    def schema(self, columns: pa.Schema) -> pa.Schema:
        return pa.schema([field.with_nullable(True) for field in columns])

    def key(self, key: Sequence[str]) -> tuple[str, ...]:
        return tuple(key)

    def records(self, delivery: Delivery, key: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        return delivery.upserts, delivery.deletes

    def rows(self, table: pa.Table, columns: pa.Schema, key: Sequence[str]) -> pa.Table:
        return table.select(columns.names).cast(columns)


class Json(Writing):
    """The columns `key` and `value`: texts, the value a JSON object; a row that is gone is a tombstone."""

    def schema(self, columns: pa.Schema) -> pa.Schema:
        return _TEXTS

    def key(self, key: Sequence[str]) -> tuple[str, ...]:
        return ("key",)

    def records(self, delivery: Delivery, key: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        values = [json.dumps(row, ensure_ascii=False) for row in json_rows(delivery.upserts)]
        upserts = pa.table([key_texts(delivery.upserts, key), values], schema=_TEXTS)
        return upserts, pa.table({"key": pa.array(key_texts(delivery.deletes, key), pa.string())})

    def rows(self, table: pa.Table, columns: pa.Schema, key: Sequence[str]) -> pa.Table:
        lines = "\n".join(table["value"].to_pylist())
        found, _ = parse_json_lines(lines.encode("utf-8", "surrogatepass"), columns)
        return found.select(columns.names)


class Debezium(Writing):
    """The columns `key` and `value`: texts, the value a change event, also for a row that is gone."""

    def schema(self, columns: pa.Schema) -> pa.Schema:
        return _TEXTS

    def key(self, key: Sequence[str]) -> tuple[str, ...]:
        return ("key",)

    def records(self, delivery: Delivery, key: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        columns, now = delivery.rows.schema, datetime.now(UTC)
        known = set()
        if not delivery.content:
            retracted = pa.array(delivery.weights.to_numpy() < 0)
            known = set(key_texts(delivery.rows.filter(retracted), key))
        texts, gone = key_texts(delivery.upserts, key), key_texts(delivery.deletes, key)
        operations = ["r" if delivery.content else "u" if text in known else "c" for text in texts]
        put = [
            _record(None, row, {"op": operation}, now)
            for row, operation in zip(python_rows(delivery.upserts), operations, strict=True)
        ]
        deleted = [_record(tuple(row.values()), None, {}, now) for row in python_rows(delivery.deletes)]
        events = list(to_debezium([*put, *deleted], columns, key, source="headwater"))
        return pa.table([[*texts, *gone], events], schema=_TEXTS), _TEXTS.empty_table().select(["key"])

    def rows(self, table: pa.Table, columns: pa.Schema, key: Sequence[str]) -> pa.Table:
        found: list[dict[str, Any]] = []
        for event in table["value"].to_pylist():
            found += from_debezium(event, columns, key)
        kept = [{name: row[name] for name in columns.names} for row in found if not row.get("_deleted")]
        rows, _ = to_arrow(kept, columns)
        return rows.select(columns.names)


WRITINGS: dict[Format, Writing] = {"rows": Rows(), "json": Json(), "debezium": Debezium()}


def _record(key: object, value: dict[str, object] | None, headers: dict[str, str], at: datetime) -> Record:
    return Record("view", 0, Offset(0), START, at, key, value, headers)
