"""The mapping of an index, from the columns of a view: what each type becomes, so that it can be searched."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pat

KEYWORD_LENGTH_MAX = 8191
"""Longer texts cannot be sorted by, nor compared completely: Lucene's limit is 32,766 bytes, four for a character."""
_SCALED_DIGITS_MAX = 15
"""What a double holds exactly; a scaled number goes through one."""
_INTEGERS = {8: "byte", 16: "short", 32: "integer", 64: "long"}

Mapping = dict[str, Any]


def mapping_of(columns: pa.Schema) -> Mapping:
    """The mapping for documents with these columns. A field that it does not name is kept, and not searched."""
    return {"dynamic": False, "properties": {field.name: field_of(field.type) for field in columns}}


def field_of(arrow: pa.DataType) -> Mapping:
    """How values of a type are indexed; the document itself always has them without loss."""
    if pat.is_boolean(arrow):
        return {"type": "boolean"}
    if pat.is_integer(arrow):
        return {"type": _INTEGERS[arrow.bit_width]}
    if pat.is_floating(arrow):
        # NaN and the infinities are texts in a document, and no numbers to a search.
        return {"type": "double" if arrow.bit_width == 64 else "float", "ignore_malformed": True}
    if pat.is_decimal(arrow):
        if arrow.precision <= _SCALED_DIGITS_MAX:
            return {"type": "scaled_float", "scaling_factor": 10.0 ** max(arrow.scale, 0)}
        return {"type": "double"}
    if pat.is_date(arrow) or pat.is_timestamp(arrow):
        return {"type": "date", "format": "strict_date_optional_time_nanos"}
    if pat.is_binary(arrow) or pat.is_large_binary(arrow) or pat.is_fixed_size_binary(arrow):
        return {"type": "binary"}
    if pat.is_list(arrow) or pat.is_large_list(arrow) or pat.is_fixed_size_list(arrow):
        return field_of(arrow.value_type)
    if pat.is_struct(arrow):
        return {"properties": {field.name: field_of(field.type) for field in arrow}}
    if pat.is_string(arrow) or pat.is_large_string(arrow):
        keyword = {"type": "keyword", "ignore_above": KEYWORD_LENGTH_MAX}
        return {"type": "text", "fields": {"keyword": keyword}}
    # A map has fields that no schema names.
    return {"type": "object", "enabled": False}
