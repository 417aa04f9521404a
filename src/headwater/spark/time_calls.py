"""`now()` and `watermark('topic')` in the SQL of views: what stands in for them.

When a view is planned, each is a scalar subquery over a relation that stands for the time source, which Spark's
optimizer moves around as any other value that it does not know. When a view is verified, it is the moment itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from headwater.errors import UnsupportedQuery
from headwater.log.times import CLOCK, watermark_of, watermarked
from headwater.spark.vocabulary.lexer import Lexeme, Token, tokens

COLUMN = "at"


@dataclass(frozen=True, slots=True)
class TimeCall:
    """A call of a time source, and where it stands in a text."""

    source: str
    start: int
    end: int


def called_as(source: str) -> str:
    """What SQL calls a time source."""
    topic = watermarked(source)
    return "now()" if topic is None else f"watermark('{topic}')"


def relation_of(source: str) -> str:
    """The name of the relation that stands for a time source."""
    return f"time of {source}"


def time_calls(sql: str) -> list[TimeCall]:
    """The calls of time sources in a query, in their order. Raises `UnsupportedQuery`."""
    found = list(tokens(sql))
    calls = (_call(found, place) for place in range(len(found)))
    return [call for call in calls if call is not None]


def with_relations(sql: str) -> str:
    """The query with a subquery in the place of each call."""
    return _replaced(sql, lambda source: f"(SELECT {COLUMN} FROM `{relation_of(source)}`)")


def with_moments(sql: str, moments: Mapping[str, datetime]) -> str:
    """The query with the moment in the place of each call: null if its source has none."""
    return _replaced(sql, lambda source: _literal(moments.get(source)))


def _literal(moment: datetime | None) -> str:
    return "CAST(NULL AS TIMESTAMP)" if moment is None else f"TIMESTAMP '{moment.isoformat(sep=' ')}'"


def _replaced(sql: str, text: Callable[[str], str]) -> str:
    for call in reversed(time_calls(sql)):
        sql = f"{sql[: call.start]}{text(call.source)}{sql[call.end :]}"
    return sql


def _call(found: list[Token], place: int) -> TimeCall | None:
    word, rest = found[place], found[place + 1 : place + 4]
    if word.lexeme is not Lexeme.WORD or word.text not in ("now", "watermark") or not rest or rest[0].text != "(":
        return None
    if place and found[place - 1].text == ".":
        return None
    if word.text == "now":
        return TimeCall(CLOCK, word.start, rest[1].end) if len(rest) > 1 and rest[1].text == ")" else None
    if len(rest) < 3 or rest[1].lexeme is not Lexeme.STRING or rest[2].text != ")":
        raise UnsupportedQuery(
            "watermark() of anything but the name of a topic", hint="Write the name as text: watermark('clicks')."
        )
    return TimeCall(watermark_of(rest[1].text), word.start, rest[2].end)
