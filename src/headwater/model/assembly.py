"""Records in any of the forms that an append takes, put together to one Arrow table and the records that do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import RejectedRecord, SchemaError
from headwater.model.casting import cast_column, python_value
from headwater.model.coercion import Rejection, describe, unknown_field
from headwater.model.columns import Column, build_column
from headwater.model.ddl import format_type

_OPTIONAL = pa.schema(
    [("_deleted", pa.bool_()), ("_headers", pa.map_(pa.string(), pa.string())), ("_partition", pa.int32())]
)


class Input(Protocol):
    """Records in one of the forms that an append takes."""

    names: set[str]
    count: int

    def rejections(self, known: Sequence[str]) -> dict[int, Rejection]:
        """The records that have other fields than the known ones, or are no records at all, by row number."""

    def column(self, field: pa.Field) -> tuple[Column, dict[int, Rejection]]: ...

    def original(self, row: int) -> bytes: ...


class PythonInput:
    """Mappings; `rejections` are those known to be none, `original` gives the text that a row came from."""

    def __init__(
        self,
        rows: Sequence[object],
        rejections: Mapping[int, Rejection] | None = None,
        original: Callable[[int], bytes] | None = None,
    ) -> None:
        self._given = rows
        self._rejections = dict(rejections or {})
        self._rows = self._mappings(rows)
        self._original = original
        self._plain = set(map(type, self._rows)) <= {dict}
        self.names = set(chain.from_iterable(self._rows))
        self.count = len(self._rows)

    def _mappings(self, rows: Sequence[object]) -> Sequence[Mapping[str, object]]:
        if all(issubclass(kind, Mapping) for kind in set(map(type, rows))):
            return cast("Sequence[Mapping[str, object]]", rows)
        for at, row in enumerate(rows):
            if not isinstance(row, Mapping):
                self._rejections.setdefault(at, Rejection("a mapping of column names to values", describe(row)))
        return [row if isinstance(row, Mapping) else {} for row in rows]

    def rejections(self, known: Sequence[str]) -> dict[int, Rejection]:
        unknown = self.names.difference(known)
        found = dict(self._rejections)
        if unknown:
            for at, row in enumerate(self._rows):
                for name in row:
                    if name in unknown:
                        found.setdefault(at, unknown_field(known, row[name], str(name)))
        return found

    def column(self, field: pa.Field) -> tuple[Column, dict[int, Rejection]]:
        if field.name not in self.names:
            return pa.nulls(self.count, field.type), {}
        return build_column(self._values(field.name), field.type)

    def _values(self, name: str) -> list[object]:
        if self._plain:  # a dict's subclass may invent what is missing
            try:
                return list(map(itemgetter(name), self._rows))
            except KeyError:
                pass
        return [row.get(name) for row in self._rows]

    def original(self, row: int) -> bytes:
        return _to_json(self._given[row]) if self._original is None else self._original(row)


class ArrowInput:
    """A table; its columns are the fields."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.names = set(table.column_names)
        self.count = len(table)
        for name in self.names:
            if table.column_names.count(name) > 1:
                raise SchemaError(
                    f"The table has column {name!r} more than once.", column=name, hint="Rename or drop one of them."
                )

    def rejections(self, known: Sequence[str]) -> dict[int, Rejection]:
        unknown = [name for name in self._table.column_names if name not in known]
        if not unknown:
            return {}
        values = map(python_value, self._table.column(unknown[0]))
        return {at: unknown_field(known, value, unknown[0]) for at, value in enumerate(values)}

    def column(self, field: pa.Field) -> tuple[Column, dict[int, Rejection]]:
        if field.name not in self.names:
            return pa.nulls(self.count, field.type), {}
        return cast_column(self._table.column(field.name), field.type)

    def original(self, row: int) -> bytes:
        return _to_json({name: python_value(self._table.column(name)[row]) for name in self._table.column_names})


def _to_json(record: object) -> bytes:
    try:
        return json.dumps(record, default=str).encode()
    except (TypeError, ValueError, RecursionError):
        return repr(record).encode(errors="backslashreplace")


def assemble(given: Input, schema: pa.Schema, key: tuple[str, ...]) -> tuple[pa.Table, list[RejectedRecord]]:
    """What `to_arrow` returns, for records in any form."""
    for name in key:
        if name not in schema.names:
            raise SchemaError(
                f"The key has {name!r}, which is not a column.", column=name, hint="Add it to the schema."
            )
    fields = [field.with_nullable(True) for field in schema]
    fields += [field for field in _OPTIONAL if field.name in given.names]
    rejections = given.rejections([*schema.names, *_OPTIONAL.names])
    columns: dict[str, Column] = {}
    for field in fields:
        columns[field.name], faults = given.column(field)
        _add(rejections, field.name, faults)
    if "_deleted" in columns:
        columns["_deleted"] = columns["_deleted"].fill_null(False)
    for field in schema:
        _add(rejections, field.name, _missing(field, columns, is_key=field.name in key))
    table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
    return _without(table, rejections), _rejected(rejections, given.original)


def _add(rejections: dict[int, Rejection], name: str, faults: Mapping[int, Rejection]) -> None:
    for row, fault in faults.items():
        rejections.setdefault(row, fault.inside(name))


def _missing(field: pa.Field, columns: Mapping[str, Column], *, is_key: bool) -> dict[int, Rejection]:
    """The rows where a value has to be and is not."""
    if (field.nullable and not is_key) or not columns[field.name].null_count:
        return {}
    missing = _mask(columns[field.name].is_null())
    if not is_key and "_deleted" in columns:
        missing &= ~_mask(columns["_deleted"])
    expected = f"{format_type(field.type)} NOT NULL{' (part of the key)' if is_key else ''}"
    return {int(row): Rejection(expected, "null") for row in np.flatnonzero(missing)}


def _mask(column: Column) -> npt.NDArray[np.bool_]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _without(table: pa.Table, rejections: Mapping[int, Rejection]) -> pa.Table:
    if not rejections:
        return table
    fits = np.ones(len(table), np.bool_)
    fits[list(rejections)] = False
    return table.filter(pa.array(fits))


def _rejected(rejections: Mapping[int, Rejection], original: Callable[[int], bytes]) -> list[RejectedRecord]:
    return [
        RejectedRecord(row, fault.where or None, fault.expected, fault.got, original(row))
        for row, fault in sorted(rejections.items())
    ]
