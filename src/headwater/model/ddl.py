"""A topic's schema as text: the column definitions of Spark SQL, read to an Arrow schema and written back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

import pyarrow as pa

from headwater.errors import SchemaError
from headwater.model.canonical import COMMENT, DECIMAL_PRECISION_MAX, check_schema, contains_map, duplicate_column

__all__ = ["check_schema", "format_ddl", "format_type", "parse_ddl"]

_TIMESTAMP = pa.timestamp("us", "UTC")
_TYPES: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": _TIMESTAMP,
    "timestamp_ltz": _TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
}
_NAMES: dict[pa.DataType, str] = {arrow: name for name, arrow in reversed(_TYPES.items())}
_DECIMALS = ("decimal", "dec", "numeric")
_TEXTS = ("varchar", "char", "character")
_KNOWN = (*_TYPES, *_DECIMALS, *_TEXTS, "array", "map", "struct")
# What people who come from other databases write; edit distance would not find these.
_FOREIGN = {
    "text": "string",
    "bool": "boolean",
    "bytes": "binary",
    "blob": "binary",
    "bytea": "binary",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "timestamptz": "timestamp",
    "datetime": "timestamp_ntz",
    "list": "array",
    "json": "string",
    "uuid": "string",
}
_TYPES_HINT = (
    "Types: tinyint, smallint, int, bigint, float, double, decimal(p,s), string, binary, boolean, date, "
    "timestamp, timestamp_ntz, array<T>, map<K,V>, struct<name: T>."
)
_COLUMN_HINT = "A column is: name type [NOT NULL] [COMMENT 'text']; columns are separated by commas."

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<word>\w+)
      | (?P<mark>[<>(),:])""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def parse_ddl(text: str) -> pa.Schema:
    """The Arrow schema of Spark column definitions such as `id bigint NOT NULL, tags array<string>`.

    Names keep their case, keywords have none. `varchar(n)` and `char(n)` become `string`, a comment is kept in the
    field's metadata. Raises SchemaError with the column, what was found at which character (from 1), and a hint.
    """
    return _Parser(text).schema()


def format_ddl(schema: pa.Schema) -> str:
    """The text that `parse_ddl` reads back as this schema, which must be canonical (see `check_schema`)."""
    return ", ".join(_format_field(field, " ") for field in schema)


def format_type(arrow: pa.DataType) -> str:
    """The DDL of one canonical type, such as `decimal(10,2)`; a type outside the DDL is shown by its Arrow name."""
    if arrow in _NAMES:
        return _NAMES[arrow]
    if pa.types.is_decimal128(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"array<{format_type(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{format_type(arrow.key_type)},{format_type(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        return f"struct<{', '.join(_format_field(field, ': ') for field in arrow)}>"
    return str(arrow)


def _format_field(field: pa.Field, separator: str) -> str:
    name = field.name if _PLAIN_NAME.fullmatch(field.name) else "`" + field.name.replace("`", "``") + "`"
    not_null = "" if field.nullable else " NOT NULL"
    comment = (field.metadata or {}).get(COMMENT)
    return f"{name}{separator}{format_type(field.type)}{not_null}{_format_comment(comment)}"


def _format_comment(comment: bytes | None) -> str:
    if comment is None:
        return ""
    escaped = comment.decode().replace("\\", "\\\\").replace("'", "\\'")
    return f" COMMENT '{escaped}'"


def _unquote(text: str) -> str:
    # One pass over escapes and doubled quotes: an escaped backslash must not escape what follows it.
    return re.sub(
        r"\\(.)|''|\"\"",
        lambda match: _ESCAPES.get(match[1], match[1]) if match[1] else match[0][:1],
        text[1:-1],
        flags=re.DOTALL,
    )


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # quoted, text, word, mark, end, or other: a character that starts no token
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"{self.text!r} at character {self.at + 1}"

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            yield _Token("other", text[at], at)
            break
        if match.lastgroup != "space":
            yield _Token(match.lastgroup, match[0], at)
        at = match.end()
    yield _Token("end", "", len(text))


class _Parser:
    """Recursive descent over the tokens; `_path` names the column, and the fields inside it, that is being read."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._path: list[str] = []

    def schema(self) -> pa.Schema:
        if self._peek().kind == "end":
            raise SchemaError("The schema is empty.", hint=_COLUMN_HINT)
        fields = self._fields()
        if self._peek().kind != "end":
            self._fail("',' or the end", _COLUMN_HINT)
        return pa.schema(fields)

    def _fields(self) -> list[pa.Field]:
        fields: dict[str, pa.Field] = {}
        while True:
            field = self._field()
            twin = fields.setdefault(field.name.lower(), field)
            if twin is not field:
                raise duplicate_column(".".join([*self._path, field.name]), twin.name)
            if not self._take_mark(","):
                return list(fields.values())

    def _field(self) -> pa.Field:
        token = self._peek()
        if token.kind not in ("word", "quoted"):
            self._fail("a column name", _COLUMN_HINT)
        self._next()
        self._path.append(token.text if token.kind == "word" else token.text[1:-1].replace("``", "`"))
        self._take_mark(":")
        arrow = self._type()
        nullable = not self._take_not_null()
        comment = self._take_comment()
        metadata = None if comment is None else {COMMENT: comment.encode()}
        return pa.field(self._path.pop(), arrow, nullable=nullable, metadata=metadata)

    def _type(self) -> pa.DataType:
        token = self._peek()
        name = token.text.lower()
        if token.kind != "word":
            self._fail("a type", _TYPES_HINT)
        if name not in _KNOWN:
            self._unknown_type(token)
        self._next()
        if name in _TYPES:
            return _TYPES[name]
        if name in _DECIMALS:
            return self._decimal()
        if name in _TEXTS:
            return self._text()
        nested: dict[str, Callable[[], pa.DataType]] = {"array": self._array, "map": self._map, "struct": self._struct}
        return nested[name]()

    def _decimal(self) -> pa.DataType:
        precision, scale, opening = 10, 0, self._peek()
        if self._take_mark("("):
            precision = self._number()
            scale = self._number() if self._take_mark(",") else 0
            self._expect(")")
        if not 1 <= precision <= DECIMAL_PRECISION_MAX or scale > precision:
            self._fail(
                f"a precision from 1 to {DECIMAL_PRECISION_MAX} and a scale up to it",
                "decimal(p,s) has p digits in all, s of them after the point.",
                found=f"decimal({precision},{scale}) at character {opening.at + 1}",
            )
        return pa.decimal128(precision, scale)

    def _text(self) -> pa.DataType:
        self._expect("(")
        self._number()
        self._expect(")")
        return pa.string()

    def _array(self) -> pa.DataType:
        self._expect("<")
        element = self._type()
        self._expect(">")
        return pa.list_(element)

    def _map(self) -> pa.DataType:
        self._expect("<")
        key = self._type()
        if contains_map(key):
            self._fail("a map key without maps", "Spark has no such type.", found=format_type(key))
        self._expect(",")
        item = self._type()
        self._expect(">")
        return pa.map_(key, item)

    def _struct(self) -> pa.DataType:
        self._expect("<")
        fields = self._fields()
        self._expect(">")
        return pa.struct(fields)

    def _number(self) -> int:
        token = self._peek()
        if token.kind != "word" or not (token.text.isascii() and token.text.isdigit()):
            self._fail("a number", _TYPES_HINT)
        return int(self._next().text)

    def _take_not_null(self) -> bool:
        if not self._peek().is_word("not"):
            return False
        self._next()
        if not self._peek().is_word("null"):
            self._fail("NULL after NOT", _COLUMN_HINT)
        self._next()
        return True

    def _take_comment(self) -> str | None:
        if not self._peek().is_word("comment"):
            return None
        self._next()
        if self._peek().kind != "text":
            self._fail("a quoted text after COMMENT", _COLUMN_HINT)
        return _unquote(self._next().text)

    def _take_mark(self, mark: str) -> bool:
        token = self._peek()
        found = token.kind == "mark" and token.text == mark
        if found:
            self._next()
        return found

    def _expect(self, mark: str) -> None:
        if not self._take_mark(mark):
            self._fail(f"'{mark}'", _TYPES_HINT)

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _unknown_type(self, token: _Token) -> NoReturn:
        lower = token.text.lower()
        near = [_FOREIGN[lower]] if lower in _FOREIGN else get_close_matches(lower, _KNOWN, n=1)
        hint = f"Did you mean {near[0]!r}? {_TYPES_HINT}" if near else _TYPES_HINT
        self._fail("a type", hint)

    def _fail(self, expected: str, hint: str, *, found: str | None = None) -> NoReturn:
        column = ".".join(self._path) or None
        where = f"Column {column!r}" if column else "The schema"
        raise SchemaError(f"{where}: expected {expected}, found {found or self._peek()}.", column=column, hint=hint)
