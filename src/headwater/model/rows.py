"""Records as a user gives them, as one Arrow table; those that do not fit are set aside, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from headwater.errors import RejectedRecord
from headwater.model import jsonlines
from headwater.model.assembly import ArrowInput, PythonInput, assemble

Rows: TypeAlias = pa.Table | pa.RecordBatch | Sequence[Mapping[str, object]]


def to_arrow(rows: Rows, schema: pa.Schema, *, key: tuple[str, ...] = ()) -> tuple[pa.Table, list[RejectedRecord]]:
    """The records that fit, in order, and why each of the others does not.

    The table has the columns of `schema` in its order and with its types, all of them nullable because a deleted record
    has no values, then `_deleted`, `_headers` and `_partition`, each only if a record has it. A missing field is null.
    A record is rejected for its first fault: an unknown field, a value that is not of the column's type exactly, a null
    in a NOT NULL column (unless it is deleted) or in a column of `key`. Nothing is truncated, rounded or wrapped, but
    that a fraction for a float or double column becomes the nearest one. Timestamps without a zone are in UTC.
    """
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return assemble(ArrowInput(rows), schema, key)
    return assemble(PythonInput(rows), schema, key)


def parse_json_lines(
    data: bytes, schema: pa.Schema, *, key: tuple[str, ...] = ()
) -> tuple[pa.Table, list[RejectedRecord]]:
    """As `to_arrow`, for one JSON object per line; blank lines are not counted.

    A record with a name more than once is rejected. A rejected record's `original` is its line. Decimals are read from
    their digits, never through a float, and a number that is too large for a double is rejected. Text for a binary
    column is base64.
    """
    lines = jsonlines.split(data)
    exact = jsonlines.needs_digits(schema)
    table, rejected = assemble(_lines_input(lines, schema, exact=exact), schema, key)
    # Without the digits, a number that is too large is read as infinity, which JSON has no way to write.
    if not exact and jsonlines.has_infinity(table):
        return assemble(_lines_input(lines, schema, exact=True), schema, key)
    return table, rejected


def _lines_input(lines: Sequence[bytes], schema: pa.Schema, *, exact: bool) -> PythonInput:
    rows, rejections = jsonlines.decode(lines, exact=exact)
    return PythonInput(jsonlines.with_binary(rows, schema), rejections, lines.__getitem__)
