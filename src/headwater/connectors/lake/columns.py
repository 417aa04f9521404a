"""Columns of a view that a table format can hold: each comes back from the format as the type that it was."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pat

from headwater.errors import TargetFailed


def check_columns(
    format_name: str,
    schema: pa.Schema,
    there_and_back: Callable[[pa.Schema], pa.Schema],
    plain: Callable[[pa.DataType], str] = str,
) -> None:
    """Raises `TargetFailed` for a column that a format has no type for, or whose type it changes.

    `there_and_back` is a schema as the format's library gives it back; whatever it raises says that there is no type.
    `plain` names a type that is not nested, and gives two types one name if the format does not tell them apart.
    """
    for field in schema:
        try:
            held = there_and_back(pa.schema([field])).field(0)
        except Exception as error:
            raise _no_type(format_name, field) from error
        if _named(held.type, plain) != _named(field.type, plain):
            raise _no_type(format_name, field)


def _named(kind: pa.DataType, plain: Callable[[pa.DataType], str]) -> str:
    """A type, whatever the fields inside of lists and maps are called and whether they may be null."""
    if pat.is_map(kind):
        return f"map<{_named(kind.key_type, plain)}, {_named(kind.item_type, plain)}>"
    if pat.is_list(kind) or pat.is_large_list(kind):
        return f"list<{_named(kind.value_type, plain)}>"
    if pat.is_struct(kind):
        return f"struct<{', '.join(f'{each.name}: {_named(each.type, plain)}' for each in kind)}>"
    return plain(kind)


def _no_type(format_name: str, field: pa.Field) -> TargetFailed:
    return TargetFailed(f"{format_name} has no type for column {field.name!r}, a {field.type}", "refused")
