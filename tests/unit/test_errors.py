"""Errors that show where something is wrong."""

from __future__ import annotations

import pytest

from headwater.errors import InvalidQuery


@pytest.mark.parametrize(
    ("sql", "line", "column", "excerpt"),
    [
        ("SELECT nope", 1, 8, "SELECT nope\n       ^"),
        ("SELECT\n\tnope", 2, 2, " nope\n ^"),
        ("SELECT", 7, 1, ""),
        (f"SELECT {'a, ' * 50}nope", 1, 158, f"…{'a, ' * 32}nope\n{' ' * 97}^"),
        (f"nope {'a' * 200}", 1, 1, f"nope {'a' * 95}…\n^"),
    ],
)
def test_the_place_of_a_mistake_is_shown(sql: str, line: int, column: int, excerpt: str) -> None:
    error = InvalidQuery("revenue", "No such column.", line=line, column=column, sql=sql)
    assert error.message == f"Invalid SQL in view 'revenue', line {line}, column {column}: No such column."
    assert error.excerpt == excerpt
    assert (excerpt in getattr(error, "__notes__", [])) is bool(excerpt)


def test_a_mistake_without_a_place() -> None:
    error = InvalidQuery(None, "It is empty.")
    assert (error.message, error.excerpt) == ("Invalid query: It is empty.", "")
