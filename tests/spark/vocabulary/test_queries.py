"""What a query may say: accepted and refused queries, as Spark itself analyzes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from headwater.errors import UnsupportedQuery
from headwater.spark.vocabulary import Words, check
from headwater.spark.vocabulary.lexer import Lexeme, tokens

ACCEPTED = [sql.strip() for sql in Path(__file__).with_name("accepted.sql").read_text().split(";") if sql.strip()]


def checked(session: SparkSession, sql: str) -> Words:
    return check(session.sql(sql)._jdf.queryExecution().analyzed().toJSON(), sql)


def refusal(session: SparkSession, sql: str) -> UnsupportedQuery:
    with pytest.raises(UnsupportedQuery) as raised:
        checked(session, sql)
    return raised.value


@pytest.mark.parametrize("sql", ACCEPTED)
def test_a_query_is_accepted(session: SparkSession, sql: str) -> None:
    session.udf.register("shout", udf(lambda text: f"{text}!", "string"))
    checked(session, sql)


LOG = "its value is not a function of the log"
CHANCE = "its result depends on the order of rows or on chance"
TIME = "Compare with now(), the log's clock: WHERE at > now() - INTERVAL 10 MINUTES."
COMPUTE = "Compute it where the record is made, and append it as a column."
FUNCTION = "Register a function with app.function."
COUNT = "count(DISTINCT ...) is exact, and costs the same here."
PERCENTILE = "percentile(...) is exact, and costs the same here."
FIRST = "Say which row is meant: min_by(value, order), or first_value(...) OVER (... ORDER BY ...)."
LAST = "Say which row is meant: max_by(value, order), or last_value(...) OVER (... ORDER BY ...)."


@pytest.mark.parametrize(
    ("sql", "construct", "detail", "hint"),
    [
        ("SELECT current_timestamp FROM t", "current_timestamp()", LOG, TIME),
        ("SELECT id FROM t WHERE at > now()", "now()", LOG, TIME),
        ("SELECT curdate() FROM t", "curdate()", LOG, TIME),
        ("SELECT current_time()", "current_time()", LOG, TIME),
        ("SELECT localtimestamp() FROM t", "localtimestamp()", LOG, TIME),
        ("SELECT unix_timestamp() FROM t", "unix_timestamp()", LOG, TIME),
        ("SELECT * FROM VALUES (now())", "now()", LOG, TIME),
        ("SELECT rand(1) FROM t", "rand()", LOG, COMPUTE),
        ("SELECT random() FROM t", "random()", LOG, COMPUTE),
        ("SELECT uniform(1, 9) FROM t", "uniform()", LOG, COMPUTE),
        ("SELECT id FROM t WHERE EXISTS (SELECT uuid() FROM t)", "uuid()", LOG, COMPUTE),
        ("SELECT transform(a, v -> v + randn()) FROM t", "randn()", LOG, COMPUTE),
        ("SELECT session_user() FROM t", "session_user()", LOG, COMPUTE),
        ("SELECT current_schema() FROM t", "current_schema()", LOG, COMPUTE),
        ("SELECT version() FROM t", "version()", LOG, COMPUTE),
        ("SELECT * FROM VALUES (version())", "version() in VALUES", LOG, COMPUTE),
        ("SELECT input_file_name() FROM t", "input_file_name()", LOG, COMPUTE),
        ("SELECT java_method('java.lang.Math', 'random')", "java_method()", LOG, FUNCTION),
        ("SELECT current_timezone()", "current_timezone()", LOG, "Name the time zone."),
        ("SELECT first_value(x) FROM t", "first_value() without an order", "", FIRST),
        ("SELECT last(x) FROM t GROUP BY g", "last() without an order", "", LAST),
        (
            "SELECT sum(any_value(x)) OVER () FROM t GROUP BY g",
            "any_value() without an order",
            "",
            "Say which value is meant: min(value) or max(value).",
        ),
        (
            "SELECT min_by(x, id, 2) FROM t",
            "min_by() of several values",
            "its result depends on the order of rows",
            "Number the rows, and take the first: QUALIFY row_number() OVER (... ORDER BY ...) <= 3.",
        ),
        (
            "SELECT string_agg(g, ',') FROM t",
            "string_agg() without an order",
            "",
            "Say in which order: listagg(...) WITHIN GROUP (ORDER BY ...).",
        ),
        (
            "SELECT mode(x, false) FROM t",
            "mode() without an order",
            "several values may be the most frequent",
            "mode(value, true) gives the least of them, mode() WITHIN GROUP (ORDER BY value DESC) the greatest.",
        ),
        ("SELECT percentile_approx(x, 0.5) FROM t", "percentile_approx()", CHANCE, PERCENTILE),
        ("SELECT approx_percentile(x, 0.5) OVER (PARTITION BY g) FROM t", "approx_percentile()", CHANCE, PERCENTILE),
        ("SELECT hll_sketch_agg(g) FROM t", "hll_sketch_agg()", CHANCE, COUNT),
        ("SELECT kll_sketch_agg_bigint(id) FROM t", "kll_sketch_agg_bigint()", CHANCE, PERCENTILE),
        (
            "SELECT try_sum(x) FROM t",
            "try_sum()",
            "whether it overflows depends on the order of rows",
            "sum(...) fails if it overflows, and sum(CAST(... AS decimal(38, 0))) does not.",
        ),
        (
            "SELECT aes_encrypt(g, '0123456789abcdef') FROM t",
            "aes_encrypt() with a random initialization vector",
            LOG,
            "Give it one: aes_encrypt(value, key, 'CBC', 'PKCS', unhex('...')).",
        ),
        (
            "SELECT convert_timezone('UTC', n) FROM t",
            "convert_timezone() from the time zone of the session",
            LOG,
            "Name both time zones: convert_timezone('UTC', 'Europe/Berlin', at).",
        ),
        (
            "SELECT id FROM t ORDER BY g COLLATE UTF8_LCASE LIMIT 1",
            "COLLATE",
            "values that are equal but not the same leave open which of them is shown",
            "Compare lower(...) with lower(...).",
        ),
        (
            "SELECT id FROM t TABLESAMPLE (10 PERCENT)",
            "TABLESAMPLE",
            "",
            "Filter by a hash: WHERE pmod(xxhash64(id), 100) < 10.",
        ),
    ],
)  # fmt: skip
def test_a_query_is_refused(session: SparkSession, sql: str, construct: str, detail: str, hint: str) -> None:
    found = refusal(session, sql)
    assert (found.construct, found.detail, found.hint) == (construct, detail, hint)


SPECIAL = """
SELECT timestamp 'now'
SELECT date'ToDay ' FROM t
SELECT timestamp_ntz "tomorrow"
SELECT id FROM t WHERE at < 'now'
SELECT CAST('now' AS timestamp)
SELECT 'today'::date
SELECT timestamp('now')
SELECT to_timestamp('now')
SELECT to_date('today')
SELECT try_to_timestamp('now')
SELECT to_timestamp_ntz('yesterday')
SELECT CAST(concat('no', 'w') AS timestamp)
SELECT date_add('today', 1)
SELECT year('today')
SELECT coalesce('now', at) FROM t
SELECT at IN ('now') FROM t
SELECT CAST(chr(110) || chr(111) || chr(119) AS date)
SELECT map('a', 'now')['a']::date
SELECT max(at) > 'now' FROM t
""".strip().splitlines()


@pytest.mark.parametrize("sql", SPECIAL)
def test_a_time_of_planning_is_refused(session: SparkSession, sql: str) -> None:
    optimized = session.sql(sql)._jdf.queryExecution().optimizedPlan().toString()
    assert re.search(r"20\d\d-\d\d-\d\d|20\d\d AS|true|false|NOT \(|IN|\d{15}", optimized), "Spark leaves it as it is"
    assert refusal(session, sql).hint == "Write the date or the time itself, or use a column with a time."


@pytest.mark.parametrize(
    "literal",
    [
        "'it''s'", "'it\\'s'", '"say ""so"""', "'a -- b'", "'/* a'", "'\\u006eow'", "'\\U0001F600'", "'\\156ow'",
        "'a\\tb'", "'a\\\\'", "r'a\\n'", 'R"a\\"', "'`a`'", "'a\nb'", "'\\0'", "'\\Z'", "/* 'x' /* */ */ 'y'",
        "-- 'x'\n'y'",
    ],
)  # fmt: skip
def test_a_string_is_read_as_spark_reads_it(session: SparkSession, literal: str) -> None:
    read = [token.text for token in tokens(f"SELECT {literal}") if token.lexeme is Lexeme.STRING]
    assert read == [session.sql(f"SELECT {literal}").collect()[0][0]]
