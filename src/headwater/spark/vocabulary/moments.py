"""Words that mean the time of planning: `timestamp 'now'`, `date 'today'`, and strings that are cast to a time.

Spark's parser puts the time in the place of such a literal, and nothing of it is left in the plan; so literals are
looked for in the text. Strings that are cast are replaced by its optimizer, where they do not depend on a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from headwater.spark.vocabulary import tables
from headwater.spark.vocabulary.lexer import Lexeme, Token
from headwater.spark.vocabulary.tree import Tree

_SPECIAL = re.compile(r"\s*(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
_LITERALS = {"date", "timestamp", "timestamp_ntz", "timestamp_ltz"}
_TIMES = ("date", "timestamp")
_CASTS = {"Cast", "ParseToDate", "ParseToTimestamp"}
_INPUTS = frozenset(tables.INPUTS.split())
_CHOICES = frozenset(tables.CHOICES.split())
_NOT_STRINGS = frozenset(tables.NOT_STRINGS.split())


def special_literals(found: Sequence[Token]) -> Iterator[str]:
    """The literals that mean the time of planning, as `timestamp 'now'`."""
    for before, token in pairwise(found):
        typed = before.lexeme is Lexeme.WORD and before.text in _LITERALS
        if typed and token.lexeme is Lexeme.STRING and _is_special(token.text):
            yield f"{before.text} '{token.text.strip()}'"


def casts_special(node: Tree) -> bool:
    """Whether an expression casts a string that is known when the query is planned, and may mean a time of planning."""
    if node.name not in _CASTS or "format" in node.fields:
        return False
    target = node.fields.get("dataType", "date")
    if not isinstance(target, str) or not target.startswith(_TIMES):
        return False
    value = node.children[0]
    return _may_be_special(value) and not any(below.name in _INPUTS for below in value.walk())


def _may_be_special(value: Tree) -> bool:
    if value.name == "Literal":
        return value.fields["dataType"] == "string" and _is_special(str(value.fields["value"]))
    if value.name == "Cast":
        return bool(value.fields["dataType"] == "string")
    if value.name in _CHOICES:
        return any(_may_be_special(child) for child in value.children)
    return value.name not in _NOT_STRINGS


def _is_special(text: str) -> bool:
    return _SPECIAL.match(text) is not None
