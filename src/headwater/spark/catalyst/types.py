"""Types of Spark's: made equal where they hold the same, and made comparable."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


def comparable_sql(value: str, given: DataType, depth: int = 0) -> str:
    """A value in SQL with every map in it as a list of its entries."""
    inner = f"e{depth}"
    match given:
        case MapType():
            entry = comparable_sql(f"{inner}.value", given.valueType, depth + 1)
            return f"transform(map_entries({value}), {inner} -> struct({inner}.key AS key, {entry} AS value))"
        case ArrayType():
            return f"transform({value}, {inner} -> {comparable_sql(inner, given.elementType, depth + 1)})"
        case StructType():
            fields = ", ".join(
                f"{comparable_sql(f'{value}.`{name}`', one.dataType, depth)} AS `{name}`"
                for one in given.fields
                for name in [one.name.replace("`", "``")]
            )
            return f"if({value} IS NULL, NULL, struct({fields}))" if given.fields else value
    return value


def nullable(given: DataType) -> DataType:
    """The type with everything inside it nullable, and without metadata."""
    if isinstance(given, StructType):
        return StructType([StructField(field.name, nullable(field.dataType)) for field in given.fields])
    changed: Any = type(given).__new__(type(given))
    changed.__dict__.update(given.__dict__)
    for part in ("elementType", "keyType", "valueType"):
        if hasattr(given, part):
            setattr(changed, part, nullable(getattr(given, part)))
    for flag in ("containsNull", "valueContainsNull"):
        if hasattr(given, flag):
            setattr(changed, flag, True)
    return changed  # type: ignore[no-any-return]
