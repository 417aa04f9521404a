"""Templates of messages: text or JSON with `$column` in it, into which values are put so that they stay values.

A placeholder is `$name` or `${any name}`, and `$$` is a dollar sign. Names are the row's columns and those of `FIELDS`.
There are no expressions, attributes or formats in it, and the values are not looked at for placeholders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.engine.sinks.channel import Notice, dumps
from headwater.errors import TargetFailed, UsageError

FIELDS = ("_id", "_name", "_view", "_event", "_key", "_position", "_at", "_row")
"""What a template knows of a notice beside the columns of its row: `_row` is the whole row as JSON."""

Escape = Callable[[str], str]
Body = str | Mapping[str, object] | Sequence[object]
_PLACEHOLDER = re.compile(r"\$(?:(?P<dollar>\$)|(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[^{}]+)\}|(?P<wrong>))")
_HINT = "A placeholder is $column or ${column}; write $$ for a dollar sign."


@dataclass(frozen=True, slots=True)
class _Place:
    """A placeholder; in JSON it may be within a text."""

    name: str
    quoted: bool = True


def values_of(identity: str, notice: Notice) -> dict[str, object]:
    """What the placeholders of a template stand for."""
    fields = {
        "_id": identity, "_name": notice.name, "_view": notice.view, "_event": notice.event, "_key": notice.key,
        "_position": notice.position, "_at": notice.at, "_row": dict(notice.row),
    }  # fmt: skip
    return {**notice.row, **fields}


def text_of(value: object) -> str:
    """A JSON value as people read it: nothing for null."""
    if value is None:
        return ""
    return value if isinstance(value, str) else dumps(value)


def unchanged(text: str) -> str:
    """The escape of plain text."""
    return text


class TextTemplate:
    """Plain text, or text of a format in which values are escaped."""

    def __init__(self, text: str, escape: Escape = unchanged) -> None:
        self._pieces, self._escape = _pieces(text), escape

    def render(self, values: Mapping[str, object]) -> str:
        """The text with its values. Raises `TargetFailed` for a placeholder that stands for nothing."""
        return "".join(
            self._escape(text_of(_value(values, piece))) if isinstance(piece, _Place) else piece
            for piece in self._pieces
        )


class JsonTemplate:
    """JSON, as text or as Python's dictionaries and lists.

    A placeholder within a text stands for the value's text; one that stands alone, or is all that a text of a
    dictionary or a list has, for the value itself. `escape` is for the texts of values. Raises `UsageError` if it is
    no JSON.
    """

    def __init__(self, body: Body, escape: Escape = unchanged) -> None:
        self._pieces, self._escape = _with_quotes(_pieces(body if isinstance(body, str) else _written(body))), escape
        try:
            json.loads(self._rendered(lambda _: None))
        except ValueError:
            raise UsageError("The body of a message is not JSON.", hint=_HINT) from None

    def render(self, values: Mapping[str, object]) -> str:
        """The JSON with its values. Raises `TargetFailed` for a placeholder that stands for nothing."""
        return self._rendered(lambda place: _value(values, place))

    def _rendered(self, value_of: Callable[[_Place], object]) -> str:
        return "".join(
            self._value(piece, value_of(piece)) if isinstance(piece, _Place) else piece for piece in self._pieces
        )

    def _value(self, place: _Place, value: object) -> str:
        if place.quoted:
            return json.dumps(self._escape(text_of(value)), ensure_ascii=False)[1:-1]
        return dumps(self._escape(value) if isinstance(value, str) else value)


def _pieces(text: str) -> list[str | _Place]:
    pieces: list[str | _Place] = []
    end = 0
    for found in _PLACEHOLDER.finditer(text):
        if found["wrong"] is not None:
            place = text[found.start() :][:20]
            raise UsageError(f"A template has a $ that does not begin a placeholder, at {place!r}.", hint=_HINT)
        pieces.append(text[end : found.start()])
        pieces.append("$" if found["dollar"] else _Place(found["name"] or found["braced"]))
        end = found.end()
    return [*pieces, text[end:]]


def _with_quotes(pieces: Sequence[str | _Place]) -> list[str | _Place]:
    """The pieces, with placeholders that know whether they are within a text of JSON."""
    found: list[str | _Place] = []
    quoted = escaped = False
    for piece in pieces:
        if isinstance(piece, _Place):
            found.append(_Place(piece.name, quoted))
            continue
        found.append(piece)
        for character in piece:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = quoted
            elif character == '"':
                quoted = not quoted
    return found


def _written(body: object) -> str:
    """JSON of which a text that is only a placeholder has lost its quotes."""
    if isinstance(body, str):
        found = _PLACEHOLDER.fullmatch(body)
        alone = found is not None and (found["name"] or found["braced"])
        return body if alone else json.dumps(body, ensure_ascii=False)
    if isinstance(body, Mapping):
        return "{" + ",".join(f"{_name(name)}:{_written(value)}" for name, value in body.items()) + "}"
    if isinstance(body, Sequence) and not isinstance(body, bytes):
        return "[" + ",".join(_written(value) for value in body) + "]"
    return json.dumps(body)


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise UsageError(
            f"The body of a message has the name {name!r}, which is not a string.", hint="Names in JSON are strings."
        )
    return json.dumps(name, ensure_ascii=False)


def _value(values: Mapping[str, object], place: _Place) -> object:
    try:
        return values[place.name]
    except KeyError:
        known = ", ".join(f"${name}" for name in values)
        raise TargetFailed(f"A template has ${place.name}, but a message only {known}", "gone") from None
