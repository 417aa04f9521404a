"""`AT POSITION '...'` behind a name in a query, which DuckDB does not know: another name stands in for it.

Names are looked for outside of strings and comments; everything else is left to DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from headwater.errors import InvalidQuery, UsageError
from headwater.model.position import Position

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<string>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*')
    |(?P<dollar>\$(?P<tag>[A-Za-z_]?\w*)\$.*?\$(?P=tag)\$)
    |(?P<name>"(?:[^"]|"")*"|[A-Za-z_\u0080-\U0010ffff][\w$]*)
    |(?P<sign>\d[\w.]*|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACKETS = re.compile(r"/\*|\*/")
_CLAUSES = frozenset({
    "ANTI", "ASOF", "AT", "CROSS", "EXCEPT", "FETCH", "FOR", "FROM", "FULL", "GROUP", "HAVING", "INNER", "INTERSECT",
    "JOIN", "LEFT", "LIMIT", "NATURAL", "OFFSET", "ON", "ORDER", "PIVOT", "POSITIONAL", "QUALIFY", "RETURNING", "RIGHT",
    "SAMPLE", "SELECT", "SEMI", "TABLESAMPLE", "UNION", "UNPIVOT", "USING", "WHERE", "WINDOW",
})  # fmt: skip
"""The words that may follow a table without an alias; any other name is one."""


@dataclass(frozen=True, slots=True)
class AtPosition:
    """What a name of a rewritten query stands for: a view or a topic as it was at a position."""

    alias: str
    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of a query that is neither space nor comment, and where it stands."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def name(self) -> str:
        """What a name, quoted or not, is."""
        return self.text[1:-1].replace('""', '"') if self.text.startswith('"') else self.text


def rewritten(sql: str, dotted: Collection[str] = ()) -> tuple[str, list[AtPosition]]:
    """The query as DuckDB takes it, and what its new names stand for. Raises `InvalidQuery`.

    `dotted` are names with a dot in them, in lower case, which DuckDB would take for a table in a schema. Lines stay
    where they are, and so do columns, as far as the new text is not longer.
    """
    found = list(words(sql))
    stand_ins: list[AtPosition] = []
    pieces, done = list[str](), 0
    for first, last, name in _names(found):
        after = [*found[last + 1 : last + 5], *[None] * 4]
        if _says(after[0], "AT") and _says(after[1], "POSITION"):
            text = after[2]
            if text is None or text.kind != "string":
                raise InvalidQuery(None, "AT POSITION needs a position after it: FROM revenue AT POSITION '42'.")
            end, following, new = text.end, after[3], f"_{len(stand_ins)}"
            stand_ins.append(AtPosition(new, name, _position(text)))
        elif name.lower() in dotted and last > first and _is_table(found, first):
            end, following, new = found[last].end, after[0], _quoted(name)
        else:
            continue
        if not _is_alias(following):
            new = f"{new} AS {_quoted(name.rpartition('.')[2])}"
        old = sql[found[first].start : end]
        lines, width = old.count("\n"), len(old.rpartition("\n")[2])
        pieces += [sql[done : found[first].start], new, "\n" * lines, " " * (width - (0 if lines else len(new)))]
        done = end
    return "".join([*pieces, sql[done:]]), stand_ins


def words(sql: str) -> Iterator[Word]:
    """The names, strings and signs of a query in DuckDB's SQL."""
    place = 0
    while match := _TOKEN.match(sql, place):
        kind, start, place = match.lastgroup or "", match.start(), match.end()
        if kind == "comment":
            place = _after_comment(sql, place)
        elif kind != "space":
            # The tag of a dollar-quoted text is a group in it.
            kind = "string" if kind in ("dollar", "tag") else kind
            yield Word(kind, sql[start:place], start, place)


def _names(found: Sequence[Word]) -> Iterator[tuple[int, int, str]]:
    """Where a name begins and ends, and what it is: several parts with dots between them are one."""
    place = 0
    while place < len(found):
        first = place
        if found[place].kind == "name":
            parts = [found[place].name]
            while place + 2 < len(found) and found[place + 1].text == "." and found[place + 2].kind == "name":
                place += 2
                parts.append(found[place].name)
            yield first, place, ".".join(parts)
        place += 1


def _is_table(found: Sequence[Word], place: int) -> bool:
    """Whether a table may stand at a place."""
    before = found[place - 1] if place else None
    return before is not None and (before.text == "," or _says(before, "FROM") or _says(before, "JOIN"))


def _says(word: Word | None, text: str) -> bool:
    return word is not None and word.kind == "name" and word.text.upper() == text


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _position(text: Word) -> Position:
    try:
        return Position.parse(text.text[1:-1])
    except UsageError as error:
        raise InvalidQuery(None, f"{text.text} is not a position.") from error


def _is_alias(word: Word | None) -> bool:
    return word is not None and word.kind == "name" and word.text.upper() not in _CLAUSES


def _after_comment(sql: str, place: int) -> int:
    """Where a comment that was opened before a place ends; comments nest."""
    depth = 1
    while depth and (found := _BRACKETS.search(sql, place)):
        depth += 1 if found[0] == "/*" else -1
        place = found.end()
    return len(sql) if depth else place
