"""The oracle of the fuzzer: when a view's content is right, and when it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.engine.publication import Excluded
from headwater.log.embedded.log import EmbeddedLog
from tools.fuzzing.expressions import Column
from tools.fuzzing.oracle import Oracle, RawFailed
from tools.fuzzing.relations import Source
from tools.fuzzing.subqueries import Subqueries

ROWS = [
    {"id": number, "g": "ab"[number % 2], "v": number // 4, "x": (1e16, 1.0, -1e16, 3.0)[number // 2]}
    for number in range(8)
]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log") as made:
        made.create("t", "id bigint, g string, v int, x double", key="id")
        made.append("t", ROWS)
        yield made


def oracle(
    spark: SparkSession, log: EmbeddedLog, sql: str, meant: Mapping[str, str] | None = None, **others: str
) -> Oracle:
    views = {**others, "q": sql}
    reads = {name: frozenset({"t", *others}) - {name} for name in views}
    made = Oracle(spark, log.topics(), views, reads, meant)
    assert made.move(log, log.position())
    return made


def never() -> pa.Table:
    raise AssertionError("The SQL leaves nothing open.")


def giving(table: pa.Table) -> Callable[[], pa.Table]:
    return lambda: table


def with_column(table: pa.Table, name: str, values: Mapping[int, object]) -> pa.Table:
    """A table in which some rows have another value."""
    rows = table.to_pylist()
    for place, value in values.items():
        rows[place][name] = value
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_what_raw_spark_gives_is_right(spark: SparkSession, log: EmbeddedLog) -> None:
    judge = oracle(spark, log, "SELECT g, sum(v) AS s FROM t GROUP BY g")
    verdict = judge.judge("q", judge.answer("q"), never)
    assert not verdict.differences
    assert not verdict.open


def test_ranks_of_ties_are_not_open(spark: SparkSession, log: EmbeddedLog) -> None:
    judge = oracle(spark, log, "SELECT id, rank() OVER (ORDER BY v) AS r FROM t")
    wrong = pa.table({"id": list(range(8)), "r": pa.array(range(1, 9), pa.int32())})
    verdict = judge.judge("q", wrong, giving(wrong))
    assert len(verdict.differences) == 12
    assert not verdict.open
    assert verdict.note == "all answers of raw Spark agree, and verify would not notice"


def test_numbers_of_ties_are_headwaters_to_settle(spark: SparkSession, log: EmbeddedLog) -> None:
    judge = oracle(spark, log, "SELECT id, row_number() OVER (ORDER BY v) AS r FROM t")
    settled = pa.table({"id": [3, 2, 1, 0, 7, 6, 5, 4], "r": pa.array(range(1, 9), pa.int32())})
    assert not judge.judge("q", settled, giving(settled)).differences
    assert judge.judge("q", settled, giving(settled)).open
    other = pa.table({"id": [1, 3, 2, 0, 7, 6, 5, 4], "r": pa.array(range(1, 9), pa.int32())})
    verdict = judge.judge("q", other, giving(settled))
    assert verdict.open
    assert verdict.differences


def test_an_open_answer_without_a_rule_should_have_been_refused(spark: SparkSession, log: EmbeddedLog) -> None:
    judge = oracle(spark, log, "SELECT id, row_number() OVER (ORDER BY v) AS r FROM t")
    settled = pa.table({"id": [3, 2, 1, 0, 7, 6, 5, 4], "r": pa.array(range(1, 9), pa.int32())})
    verdict = judge.judge("q", settled, giving(settled), has_rules=False)
    assert verdict.differences
    assert "refused" in verdict.note


def test_an_order_that_raw_spark_drops_is_asked_for_in_other_words(spark: SparkSession, log: EmbeddedLog) -> None:
    inner = Source("t AS y", (), 8, frozenset({"t"}))
    rows = Subqueries(Random(1)).numbered(
        Column("y.id", "bigint"), inner, "x.g = y.g", "ORDER BY y.v DESC, y.id DESC", "= 1"
    )
    newest = "(SELECT y.id FROM t AS y WHERE x.g = y.g ORDER BY y.v DESC, y.id DESC LIMIT 1)"
    sql = f"SELECT x.id, {newest} AS n FROM t AS x"
    right = pa.table({"id": list(range(8)), "n": [6, 7] * 4})
    wrong = pa.table({"id": list(range(8)), "n": [0, 1] * 4})
    judge = oracle(spark, log, sql, {newest: f"(SELECT min(w0) {rows})"})
    assert not judge.judge("q", right, giving(wrong)).differences
    assert len(judge.judge("q", wrong, giving(wrong)).differences) == 16


def test_a_sum_that_cancels_is_right_in_the_range_of_the_answers(spark: SparkSession, log: EmbeddedLog) -> None:
    judge = oracle(spark, log, "SELECT g, sum(x) AS s FROM t GROUP BY g")
    exact = pa.table({"g": ["a", "b"], "s": [4.0, 4.0]})
    assert not judge.judge("q", exact, never).differences
    wrong = pa.table({"g": ["a", "b"], "s": [4.0, 400.0]})
    assert judge.judge("q", wrong, giving(exact)).differences


def test_answers_follow_the_log(spark: SparkSession, log: EmbeddedLog) -> None:
    judge = oracle(spark, log, "SELECT max(c) AS m FROM up", up="SELECT g, count(*) AS c FROM t GROUP BY g")
    assert judge.answer("q").to_pylist() == [{"m": 4}]
    log.append("t", [{"id": 10, "g": "a", "v": 0, "x": 0.0}])
    assert judge.answer("q").to_pylist() == [{"m": 4}]
    judge.move(log, log.position())
    assert judge.answer("q").to_pylist() == [{"m": 5}]


def test_records_that_were_set_aside_do_not_count(spark: SparkSession, log: EmbeddedLog) -> None:
    log.append("t", [{"id": 1, "g": "z", "v": 0, "x": 0.0}])
    judge = oracle(spark, log, "SELECT g FROM t WHERE id = 1")
    assert judge.answer("q").to_pylist() == [{"g": "z"}]
    judge.move(log, log.position(), [Excluded("q", "t", 0, 8, "")])
    assert judge.answer("q").to_pylist() == [{"g": "b"}]


def test_a_query_that_fails(spark: SparkSession, log: EmbeddedLog) -> None:
    judge = oracle(spark, log, "SELECT 1 / v AS q FROM t")
    with pytest.raises(RawFailed, match="DIVIDE_BY_ZERO"):
        judge.answer("q")
    assert all(judge.failures("q", 3))
    log.delete("t", [{"id": number} for number in range(4)])
    judge.move(log, log.position())
    assert not any(judge.failures("q", 3))


def test_a_compacted_topic_can_not_be_judged_at_an_older_position(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create("c", "id bigint", key="id", cleanup="compact")
    first = log.append("c", [{"id": 1}])
    last = log.append("c", [{"id": 1}])
    log.seal("c")
    log.compact("c")
    judge = Oracle(spark, log.topics(), {}, {})
    assert not judge.move(log, first)
    assert judge.move(log, last)
