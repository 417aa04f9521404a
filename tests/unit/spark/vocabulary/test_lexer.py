"""SQL is taken apart as Spark does it: what is in a string or a comment is not a word."""

from __future__ import annotations

import pytest

from headwater.spark.vocabulary.lexer import Lexeme, called, tokens


def strings(sql: str) -> list[str]:
    return [token.text for token in tokens(sql) if token.lexeme is Lexeme.STRING]


def names(sql: str) -> list[str]:
    return [token.text for token in tokens(sql) if token.lexeme is Lexeme.WORD]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'a'", "a"),
        ('"a"', "a"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("'it\\'s'", "it's"),
        ('"say ""so"""', 'say "so"'),
        ("'a -- b'", "a -- b"),
        ("'/* a */'", "/* a */"),
        ("'\\u006eow'", "now"),
        ("'\\U0000006eow'", "now"),
        ("'\\156ow'", "now"),
        ("'a\\nb'", "a\nb"),
        ("'a\\\\'", "a\\"),
        ("r'a\\n'", "a\\n"),
        ('R"a\\"', "a\\"),
        ("'`a`'", "`a`"),
        ("'a\nb'", "a\nb"),
    ],
)
def test_a_string_is_read_by_its_value(literal: str, value: str) -> None:
    assert strings(f"SELECT {literal} AS x") == [value]


@pytest.mark.parametrize(
    "sql",
    [
        "a -- b 'c'\n d",
        "a /* b 'c' */ d",
        "a /* b /* b */ 'c' */ d",
        "a -- b \\\n still 'c'\n d",
        "a --\n d",
        "a/**/d",
    ],
)
def test_a_comment_is_left_out(sql: str) -> None:
    assert [token.text for token in tokens(sql)] == ["a", "d"]


def test_a_comment_that_does_not_end_takes_the_rest() -> None:
    assert names("a /* b /* c */ d") == ["a"]


def test_a_hint_is_not_a_comment() -> None:
    assert "broadcast" in names("SELECT /*+ BROADCAST(t) */ x FROM t")


def test_a_quoted_name_is_a_word() -> None:
    assert names("SELECT `A ``b` FROM `it's`") == ["select", "a `b", "from", "it's"]


def test_an_r_at_the_end_of_a_name_begins_no_raw_string() -> None:
    assert strings("SELECT bar'a\\'b'") == ["a'b"]


def test_calls_are_names_before_a_parenthesis() -> None:
    sql = "SELECT Try_Sum (x), builtin.avg(y), `max`(z), 'min(a)', b /* count(c) */ FROM t WHERE (d)"
    assert called(tuple(tokens(sql))) == {"try_sum", "avg", "max", "where"}
