"""Which changes of a topic's schema keep every record readable, and how older records are brought to the newer one."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pat

from headwater.errors import SchemaError
from headwater.model.ddl import format_type

# Decimal digits that hold every value of the type.
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_WIDER: dict[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64(), pa.float64()),
    pa.int16(): (pa.int32(), pa.int64(), pa.float64()),
    pa.int32(): (pa.int64(), pa.float64()),
    pa.float32(): (pa.float64(),),
    pa.date32(): (pa.timestamp("us"),),
}


def check_evolution(old: pa.Schema, new: pa.Schema) -> None:
    """Returns if every record written with `old` can be read with `new`, and raises SchemaError if not.

    Allowed, also inside structs, array elements and map values: a nullable column more, a wider type, NOT NULL taken
    away, another order. Not allowed: a column less or renamed, another or narrower type, NOT NULL added. Both schemas
    are canonical; comments do not count.
    """
    _check_fields(old, new, "")


def evolves(old: pa.Schema, new: pa.Schema) -> bool:
    """Whether every record written with `old` can be read with `new`."""
    try:
        check_evolution(old, new)
    except SchemaError:
        return False
    return True


def is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether every value of the plain type `old` has an equal one in `new`; a type is not wider than itself."""
    if new in _WIDER.get(old, ()):
        return True
    if not pat.is_decimal128(new):
        return False
    if pat.is_decimal128(old):
        digits, scale = old.precision - old.scale, old.scale
        return old != new and bool(new.scale >= scale and new.precision - new.scale >= digits)
    return old in _DIGITS and bool(new.precision - new.scale >= _DIGITS[old])


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table, written with an older schema, as one of `schema`: same values, new columns null.

    No column whose type is the same is copied, and a table that has the schema already is returned itself. Never fails
    after `check_evolution`; raises SchemaError for a table whose schema does not evolve to this one.
    """
    if table.schema.equals(schema, check_metadata=True):
        return table
    extra = [name for name in table.schema.names if schema.get_field_index(name) < 0]
    if extra:
        raise _dropped(extra[0], schema)
    columns = [_conform_column(table, field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _conform_column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    at = table.schema.get_field_index(field.name)
    if at < 0:
        if not field.nullable:
            raise _added_not_null(field.name)
        return pa.chunked_array([pa.nulls(len(table), field.type)])
    if table.schema.field(at).type == field.type:
        return table.column(at)
    _check_type(table.schema.field(at).type, field.type, field.name)
    return pa.chunked_array([_widen(chunk, field.type) for chunk in table.column(at).chunks], field.type)


def _widen(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    # Arrow's own cast of a struct fails where the struct is null and a NOT NULL field in it therefore has no value.
    if array.type == arrow:
        return array
    if pat.is_struct(arrow):
        children = [_widen_child(array, field) for field in arrow]
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=_null_mask(array))
    if pat.is_map(arrow):
        offsets, entries = _own_offsets(array)
        items = _widen(array.items[entries], arrow.item_type)
        return pa.MapArray.from_arrays(offsets, array.keys[entries], items, type=arrow, mask=_null_mask(array))
    if pat.is_list(arrow):
        offsets, elements = _own_offsets(array)
        values = _widen(array.values[elements], arrow.value_type)
        return pa.ListArray.from_arrays(offsets, values, type=arrow, mask=_null_mask(array))
    return array.cast(arrow)


def _widen_child(array: pa.StructArray, field: pa.Field) -> pa.Array:
    at = array.type.get_field_index(field.name)
    return pa.nulls(len(array), field.type) if at < 0 else _widen(array.field(at), field.type)


def _own_offsets(array: pa.Array) -> tuple[pa.Array, slice]:
    """The offsets of a list or map as if it were no slice of a longer one, and what it takes of the values below."""
    offsets = array.offsets.to_numpy()
    return pa.array(offsets - offsets[0]), slice(int(offsets[0]), int(offsets[-1]))


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _check_fields(old: Iterable[pa.Field], new: Iterable[pa.Field], parent: str) -> None:
    before = {field.name: field for field in old}
    after = {field.name: field for field in new}
    for name in before:
        if name not in after:
            raise _dropped(parent + name, after)
    for name, field in after.items():
        if name in before:
            _check_field(before[name], field, parent + name)
        elif not field.nullable:
            raise _added_not_null(parent + name)


def _check_field(old: pa.Field, new: pa.Field, path: str) -> None:
    if old.nullable and not new.nullable:
        raise SchemaError(
            f"Column {path!r} cannot become NOT NULL: existing records may have a null in it.",
            column=path,
            hint="Leave it nullable, or copy the records that have a value to a new topic.",
        )
    _check_type(old.type, new.type, path)


def _check_type(old: pa.DataType, new: pa.DataType, path: str) -> None:
    if old == new or is_wider(old, new):
        return
    if pat.is_struct(old) and pat.is_struct(new):
        _check_fields(old, new, path + ".")
    elif pat.is_list(old) and pat.is_list(new):
        _check_type(old.value_type, new.value_type, path + ".element")
    elif pat.is_map(old) and pat.is_map(new) and old.key_type == new.key_type:
        _check_type(old.item_type, new.item_type, path + ".value")
    else:
        raise _not_wider(old, new, path)


def _dropped(path: str, after: Iterable[object]) -> SchemaError:
    name = path.rpartition(".")[2]
    same = [other for other in map(_name_of, after) if other.lower() == name.lower()]
    renamed = f" ({same[0]!r} is another column: names have case here)" if same else ""
    return SchemaError(
        f"Column {path!r} cannot be dropped or renamed{renamed}: existing records have it.",
        column=path,
        hint="Keep the column (new records may leave it null), or copy the topic to a new one.",
    )


def _name_of(column: object) -> str:
    return column.name if isinstance(column, pa.Field) else str(column)


def _added_not_null(path: str) -> SchemaError:
    return SchemaError(
        f"Column {path!r} cannot be added as NOT NULL: existing records have no value for it.",
        column=path,
        hint="Add it as a nullable column.",
    )


def _not_wider(old: pa.DataType, new: pa.DataType, path: str) -> SchemaError:
    return SchemaError(
        f"Column {path!r} cannot change from {format_type(old)} to {format_type(new)}: "
        "some values would change or not fit.",
        column=path,
        hint=f"{_widening_hint(old)} Or add a new column.",
    )


def _widening_hint(old: pa.DataType) -> str:
    names = [format_type(wider) for wider in _WIDER.get(old, ())]
    if old in _DIGITS:
        names.append(f"decimal(p,s) with p - s >= {_DIGITS[old]}")
    if pat.is_decimal128(old):
        names.append(f"decimal(p,s) with s >= {old.scale} and p - s >= {old.precision - old.scale}")
    fate = f"can become {' or '.join(names)}" if names else "keeps its type"
    return f"A {format_type(old)} {fate}."
