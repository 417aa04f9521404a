"""JSON schemas of what goes in and out, as the OpenAPI document shows them."""

from __future__ import annotations

from typing import Any, TypeAlias

Shape: TypeAlias = dict[str, Any]

TEXT: Shape = {"type": "string"}
WHOLE: Shape = {"type": "integer"}
NUMBER: Shape = {"type": "number"}
YES_NO: Shape = {"type": "boolean"}
ANYTHING: Shape = {}
INSTANT: Shape = {"type": "string", "description": "ISO 8601 in UTC."}
_COUNTER = "[A-Za-z0-9][A-Za-z0-9._-]*/[0-9]{1,4}:[0-9]{1,18}"
POSITION_TEXT = f"([0-9]{{1,18}}|{_COUNTER}(,{_COUNTER})*)"
POSITION_PATTERN = f"^{POSITION_TEXT}$"
POSITION: Shape = {"type": "string", "description": "A position of the log: hand it back as at_least."}


def maybe(shape: Shape) -> Shape:
    """The same, or null."""
    return {"anyOf": [shape, {"type": "null"}]}


def many(shape: Shape) -> Shape:
    return {"type": "array", "items": shape}


def by_name(shape: Shape) -> Shape:
    """An object whose names are not known beforehand."""
    return {"type": "object", "additionalProperties": shape}


def thing(**members: Shape) -> Shape:
    """An object that has all of these members."""
    return {"type": "object", "properties": members, "required": list(members)}


ROW: Shape = {"type": "object", "description": "The columns by name; decimals as strings, binary as base64."}
COLUMN = thing(name=TEXT, type={"type": "string", "description": "As in SQL: bigint, decimal(12,2), array<string>."})
ERROR = thing(error={**thing(code=TEXT, message=TEXT, hint=TEXT), "additionalProperties": True})
BATCH = thing(
    batch=WHOLE,
    position=POSITION,
    published_at=INSTANT,
    records=WHOLE,
    seconds=NUMBER,
    freshness_seconds=maybe(NUMBER),
    changes=by_name(WHOLE),
    operators=by_name(thing(rows_in=WHOLE, rows_out=WHOLE)),
)
SIZE = thing(rows=WHOLE, bytes=WHOLE, files=WHOLE)
