"""SQL as a sequence of strings, words and signs, without comments, as Spark's own lexer takes it apart.

For what a plan does not show: literals that the parser has replaced, and names by which a function was called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

_TOKEN = re.compile(
    r"""
    (?P<comment>--(?:\\\n|[^\r\n])*)
    |(?P<bracket>/\*(?!\+))
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |`(?P<quoted>(?:[^`]|``)*)`
    |(?P<word>\w+)
    |(?P<space>\s+)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACKETS = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "0": "\0", "Z": "\x1a"}


class Lexeme(Enum):
    STRING = "string"
    WORD = "word"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL: a string by its value, a word in lower case, or another character; and where it stands."""

    lexeme: Lexeme
    text: str
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


OPENED = Token(Lexeme.SIGN, "(")


def tokens(sql: str) -> Iterator[Token]:
    """The strings, words and signs of a text."""
    place = 0
    while found := _TOKEN.match(sql, place):
        start, place = place, found.end()
        match found.lastgroup, found[0]:
            case "bracket", _:
                place = _after_comment(sql, place)
            case "raw", text:
                yield Token(Lexeme.STRING, text[2:-1], start, place)
            case "string", text:
                yield Token(Lexeme.STRING, _unescaped(text), start, place)
            case "quoted", _:
                yield Token(Lexeme.WORD, found["quoted"].replace("``", "`").lower(), start, place)
            case "word", text:
                yield Token(Lexeme.WORD, text.lower(), start, place)
            case "sign", text:
                yield Token(Lexeme.SIGN, text, start, place)


def called(found: Sequence[Token]) -> set[str]:
    """The names that a parenthesis follows: functions, and aliases of relations that name their columns."""
    return {word.text for word, after in pairwise(found) if after == OPENED and word.lexeme is Lexeme.WORD}


def _after_comment(sql: str, place: int) -> int:
    """Where a comment that was opened before a place ends; comments nest."""
    depth = 1
    while depth and (found := _BRACKETS.search(sql, place)):
        depth += 1 if found[0] == "/*" else -1
        place = found.end()
    return len(sql) if depth else place


def _unescaped(text: str) -> str:
    quote, inner = text[0], text[1:-1]
    return _ESCAPE.sub(_character, inner.replace(quote * 2, quote))


def _character(found: re.Match[str]) -> str:
    short, long, octal, other = found.groups()
    if other is not None:
        return _ESCAPED.get(other, other)
    return chr(int(octal, 8) if octal else int(short or long, 16))
