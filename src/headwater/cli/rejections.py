"""Why a record was refused, in the words of its input rather than in those of Python."""

from __future__ import annotations

import json
import re

from headwater.errors import RejectedRecord

_TEXT_LENGTH_MAX = 80
_KINDS = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "Decimal": "a number",
    "bool": "a boolean",
    "dict": "an object",
    "list": "an array",
}
_KIND = re.compile(rf" \(({'|'.join(_KINDS)})\)$")
_VALUES = {"True": "true", "False": "false"}


def rejection(rejected: RejectedRecord) -> str:
    """What was expected, and what was there."""
    if rejected.field is None and rejected.expected == "a JSON object":
        return f"expected a JSON object, got {_line(rejected.original)}"
    return rejected.reason.removesuffix(rejected.got) + _value(rejected.got)


def _value(got: str) -> str:
    kind = _KIND.search(got)
    if kind is None:
        return got
    value = got[: kind.start()]
    return f"{_VALUES.get(value, value)}, {_KINDS[kind[1]]}"


def _line(line: bytes) -> str:
    """The text of a line, and where it ceases to be JSON."""
    text = line.decode("utf-8", "backslashreplace").strip()
    shown = text if len(text) <= _TEXT_LENGTH_MAX else text[: _TEXT_LENGTH_MAX - 3] + "..."
    # What is not printable could change the terminal; as an escape it cannot.
    printable = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in shown)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"{printable} (character {error.pos + 1}: {error.msg})"
    except RecursionError:
        return f"{printable} (nested too deep)"
    return printable
