"""Simpler forms of a query, by leaving out parts of its text: clauses, joins, items of lists, conditions, calls.

Nothing is known here about SQL but its words and parentheses. Whether a form is a query at all, Spark decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

_WORDS = re.compile(r"'(?:[^']|'')*'|`[^`]*`|[\w.#]+|<=>|<=|>=|<>|->|::|\|\||[^\s\w]")
_CLAUSES = ("WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "LATERAL")
_JOINS = ("JOIN", "LEFT", "RIGHT", "FULL", "CROSS")
_SETS = ("UNION", "INTERSECT", "EXCEPT")
_ENDS = (*_CLAUSES, *_JOINS, *_SETS)


@dataclass(slots=True)
class _Group:
    """What stands between two parentheses, or the whole text."""

    parts: list[_Part] = field(default_factory=list)


_Part: TypeAlias = "str | _Group"


def simpler(sql: str) -> Iterator[str]:
    """Texts with less in them, those with the least first."""
    whole = _parsed(sql)
    made = {_text(other) for other in _cut(whole)} | {_text(group) for group in _subqueries(whole)}
    made.discard(_text(whole))
    yield from sorted(made, key=len)


def _parsed(sql: str) -> _Group:
    open_groups = [_Group()]
    for word in _WORDS.findall(sql):
        if word == "(":
            open_groups.append(_Group())
        elif word == ")" and len(open_groups) > 1:
            closed = open_groups.pop()
            open_groups[-1].parts.append(closed)
        else:
            open_groups[-1].parts.append(word)
    return open_groups[0]


def _text(group: _Group) -> str:
    text = " ".join(f"({_text(part)})" if isinstance(part, _Group) else part for part in group.parts)
    # Functions are written in small letters, and keywords are not.
    return re.sub(r"\b([a-z_]\w*) \(", r"\1(", text).replace(" ,", ",")


def _subqueries(group: _Group) -> Iterator[_Group]:
    """Queries in parentheses, each of which may do instead of the whole."""
    for part in group.parts:
        if isinstance(part, _Group):
            if part.parts and part.parts[0] in ("SELECT", "WITH"):
                yield part
            yield from _subqueries(part)


def _cut(group: _Group) -> Iterator[_Group]:
    """Copies of a group with one thing left out, in it or in a group inside."""
    for first, last in _ranges(group.parts):
        yield _Group([*group.parts[:first], *group.parts[last:]])
    for place, part in enumerate(group.parts):
        if not isinstance(part, _Group):
            continue
        for smaller in _cut(part):
            yield _Group([*group.parts[:place], smaller, *group.parts[place + 1 :]])
        if not any(word in ("SELECT", "WITH", "VALUES") for word in part.parts[:1]):
            yield from _unwrapped(group, place, part)


def _unwrapped(group: _Group, place: int, part: _Group) -> Iterator[_Group]:
    """An argument instead of the call, or an operand instead of the operation."""
    called = place > 0 and isinstance(group.parts[place - 1], str) and str(group.parts[place - 1]).islower()
    first = place - 1 if called else place
    for argument in _items(part.parts):
        yield _Group([*group.parts[:first], *argument, *group.parts[place + 1 :]])
    if not called and len(part.parts) >= 3:
        yield _Group([*group.parts[:place], part.parts[0], *group.parts[place + 1 :]])
        yield _Group([*group.parts[:place], part.parts[-1], *group.parts[place + 1 :]])


def _items(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    item: list[_Part] = []
    for part in parts:
        if part == ",":
            yield item
            item = []
        else:
            item.append(part)
    if item:
        yield item


def _ranges(parts: Sequence[_Part]) -> Iterator[tuple[int, int]]:
    """Where something begins and ends that may be left out."""
    for place, part in enumerate(parts):
        if part == "FILTER":
            yield place, place + 2
        elif part in _ENDS:
            yield place, _until(parts, place + 1, _ENDS)
            yield place, len(parts)
        elif part == "DISTINCT":
            yield place, place + 1
        elif part in ("AND", "OR"):
            yield place, _until(parts, place + 1, ("AND", "OR", *_ENDS))
            yield _since(parts, place, ("AND", "OR", "WHERE", "ON")), place + 1
        elif part == ",":
            yield place, _until(parts, place + 1, (",", "FROM", *_ENDS))
            yield _since(parts, place, (",", "SELECT", "DISTINCT", "BY")), place + 1


def _until(parts: Sequence[_Part], start: int, ends: Sequence[str]) -> int:
    # A join of two words begins with the first.
    if start < len(parts) and parts[start] in _JOINS:
        start += 1
    return next((place for place in range(start, len(parts)) if parts[place] in ends), len(parts))


def _since(parts: Sequence[_Part], end: int, starts: Sequence[str]) -> int:
    return next((place + 1 for place in range(end - 1, -1, -1) if parts[place] in starts), 0)
