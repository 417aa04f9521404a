"""Simpler forms of a query."""

from __future__ import annotations

import pytest

from tools.fuzzing.simplifying import simpler


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM t WHERE a = 1", "SELECT a FROM t"),
        ("SELECT a, b FROM t", "SELECT b FROM t"),
        ("SELECT a, b FROM t", "SELECT a FROM t"),
        ("SELECT a FROM t JOIN u ON t.k = u.k WHERE a = 1", "SELECT a FROM t WHERE a = 1"),
        ("SELECT a FROM t LEFT JOIN u ON t.k = u.k", "SELECT a FROM t"),
        ("SELECT a FROM t WHERE a = 1 AND b = 2", "SELECT a FROM t WHERE b = 2"),
        ("SELECT a FROM t WHERE a = 1 AND b = 2", "SELECT a FROM t WHERE a = 1"),
        ("SELECT sum(a) FILTER (WHERE b = 1) FROM t", "SELECT sum(a) FROM t"),
        ("SELECT coalesce(a, b) FROM t", "SELECT a FROM t"),
        ("SELECT (a + b) FROM t", "SELECT b FROM t"),
        ("SELECT x.a FROM (SELECT a FROM t ORDER BY a LIMIT 2) AS x", "SELECT a FROM t ORDER BY a LIMIT 2"),
        ("SELECT x.a FROM (SELECT a FROM t ORDER BY a LIMIT 2) AS x", "SELECT x.a FROM (SELECT a FROM t) AS x"),
        ("(SELECT a FROM t) UNION ALL (SELECT b FROM u)", "(SELECT a FROM t)"),
    ],
)
def test_something_is_left_out(sql: str, expected: str) -> None:
    assert expected in list(simpler(sql))


def test_the_shortest_come_first() -> None:
    lengths = [len(text) for text in simpler("SELECT a, b FROM t WHERE a = 1 ORDER BY b LIMIT 3")]
    assert lengths == sorted(lengths)


def test_what_can_not_be_simpler_has_no_simpler_form() -> None:
    assert list(simpler("SELECT a FROM t")) == []


def test_text_in_quotes_is_one_word() -> None:
    found = list(simpler("SELECT 'a, (b' AS c, d FROM t"))
    assert "SELECT 'a, (b' AS c FROM t" in found
    assert all(text.count("'") in (0, 2) for text in found)
