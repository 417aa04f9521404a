"""The types a topic's columns can have, and how any other Arrow schema is brought to them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pat

from headwater.errors import SchemaError
from headwater.model.record import SYSTEM_COLUMNS

DECIMAL_PRECISION_MAX = 38
COMMENT = b"comment"  # the key under which Spark, too, keeps a column's comment

_SAME: dict[pa.DataType, pa.DataType] = {
    arrow: arrow
    for arrow in (
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.bool_(),
        pa.date32(),
    )
}
_LOSSLESS: dict[pa.DataType, pa.DataType] = _SAME | {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def check_schema(schema: pa.Schema) -> pa.Schema:
    """The canonical form of a schema that a user gives: the types of the DDL, comments, and nothing else.

    A type is replaced only where every value of it fits (`uint8` by `smallint`, a dictionary by its values); a
    timestamp becomes one in microseconds, in UTC if it has a zone. Raises SchemaError, with the column and the reason,
    for any other type, for names that are equal without case, for reserved names and for a schema without columns.
    """
    if len(schema) == 0:
        raise SchemaError("The schema has no columns.", hint="Give it at least one.")
    for name in schema.names:
        if name.lower() in SYSTEM_COLUMNS:
            raise SchemaError(
                f"Column {name!r} has a name that headwater itself uses.",
                column=name,
                hint=f"Rename it; reserved are {', '.join(SYSTEM_COLUMNS)}.",
            )
    return pa.schema(_canonical_fields(schema, ""))


def duplicate_column(name: str, twin: str) -> SchemaError:
    """The error for a name that is there already; Spark does not tell names apart by case."""
    return SchemaError(
        f"Column {name!r} appears twice{'' if name.endswith(twin) else f' (the other is {twin!r})'}.",
        column=name,
        hint="Names are compared without case, as Spark compares them: rename one of the two.",
    )


def contains_map(arrow: pa.DataType) -> bool:
    """Whether the type is a map or has one inside; such a type cannot be a map's key."""
    if pat.is_map(arrow):
        return True
    if pat.is_list(arrow):
        return contains_map(arrow.value_type)
    return bool(pat.is_struct(arrow)) and any(contains_map(field.type) for field in arrow)


def _canonical_fields(fields: Iterable[pa.Field], parent: str) -> list[pa.Field]:
    seen: dict[str, pa.Field] = {}
    for field in fields:
        path = parent + field.name
        if not field.name:
            raise SchemaError("A column has no name.", column=path, hint="Name every column.")
        if field.name.lower() in seen:
            raise duplicate_column(path, seen[field.name.lower()].name)
        comment = (field.metadata or {}).get(COMMENT)
        metadata = None if comment is None else {COMMENT: comment}
        seen[field.name.lower()] = pa.field(field.name, _canonical(field.type, path), field.nullable, metadata)
    return list(seen.values())


def _canonical(arrow: pa.DataType, path: str) -> pa.DataType:
    if arrow in _LOSSLESS:
        return _LOSSLESS[arrow]
    if pat.is_timestamp(arrow):
        return pa.timestamp("us", None if arrow.tz is None else "UTC")
    if pat.is_decimal(arrow):
        return _canonical_decimal(arrow, path)
    if pat.is_dictionary(arrow) or pat.is_run_end_encoded(arrow):
        return _canonical(arrow.value_type, path)
    if pat.is_fixed_size_binary(arrow):
        return pa.binary()
    if pat.is_map(arrow):
        return _canonical_map(arrow, path)
    if _is_any_list(arrow):
        return pa.list_(_canonical(arrow.value_type, path + ".element"))
    if pat.is_struct(arrow) and arrow.num_fields > 0:
        return pa.struct(_canonical_fields(arrow, path + "."))
    raise _refused(arrow, path)


def _is_any_list(arrow: pa.DataType) -> bool:
    kinds = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list, pat.is_list_view, pat.is_large_list_view)
    return any(kind(arrow) for kind in kinds)


def _canonical_decimal(arrow: pa.DataType, path: str) -> pa.DataType:
    # Arrow allows a negative scale and a scale above the precision; neither exists in Spark.
    scale = max(arrow.scale, 0)
    precision = max(arrow.precision - arrow.scale, 0) + scale
    if precision > DECIMAL_PRECISION_MAX:
        raise SchemaError(
            f"Column {path!r}: {arrow} needs {precision} digits, a decimal has at most {DECIMAL_PRECISION_MAX}.",
            column=path,
            hint=f"Cast it to decimal({DECIMAL_PRECISION_MAX},s), to double, or to string.",
        )
    return pa.decimal128(precision, scale)


def _canonical_map(arrow: pa.DataType, path: str) -> pa.DataType:
    key = _canonical(arrow.key_type, path + ".key")
    if contains_map(key):
        raise SchemaError(f"Column {path!r}: a map's key cannot be a map.", column=path, hint="Use an array.")
    return pa.map_(key, _canonical(arrow.item_type, path + ".value"))


def _refused(arrow: pa.DataType, path: str) -> SchemaError:
    if pat.is_null(arrow):
        reason, hint = "has only nulls, so its type is not known", "Cast it to the type that it shall have."
    elif pat.is_time(arrow):
        reason, hint = "is a time of day, which Spark does not have", "Cast it to bigint (microseconds) or to string."
    elif pat.is_duration(arrow) or pat.is_interval(arrow):
        reason, hint = "is a length of time, which a topic cannot hold", "Cast it to bigint (microseconds)."
    elif pat.is_struct(arrow):
        reason, hint = "is a struct without fields", "Give it a field, or leave it out."
    else:
        reason, hint = "has no counterpart in Spark", "Cast it to a type of the DDL, such as string or binary."
    return SchemaError(f"Column {path!r}: {arrow} {reason}.", column=path, hint=hint)
