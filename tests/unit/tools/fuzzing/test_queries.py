"""What the fuzzer of views can say, and that a seed decides it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from headwater.testing.disk import seeded
from tools.fuzzing.changes import Changes, Commit
from tools.fuzzing.failing import FailingQueries
from tools.fuzzing.plans import COMPILED_EVERY
from tools.fuzzing.queries import Queries
from tools.fuzzing.relations import history_relations, topic_relation
from tools.fuzzing.topics import TopicPlan, failing_topics, random_topics


def queries(seed: int, count: int) -> Iterator[str]:
    dice = seeded(seed)
    topics = random_topics(dice)
    histories = [one for topic in topics for one in history_relations(topic)]
    made = Queries(dice, [*(topic_relation(topic) for topic in topics), *histories], seed // COMPILED_EVERY)
    for _ in range(count):
        yield made.query(dice.choice((0, 0, 1))).sql


@cache
def many() -> tuple[str, ...]:
    return tuple(sql for seed in range(150) for sql in queries(seed, 24))


SAID = {
    "ranks over ties": r"(?<!_)rank\(\) OVER",
    "windows without an order": r"sum\([^()]*\) OVER \((PARTITION BY \S+)?\)",
    "frames by rows": r"ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "frames of rows without an order": r"OVER \((PARTITION BY [\w.]+ )?ROWS",
    "frames by range": r"RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
    "nulls left out": r"IGNORE NULLS",
    "statistics": r"\b(stddev|kurtosis|skewness|var_samp)\(x",
    "statistics of pairs": r"\b(corr|regr_slope)\(x",
    "statistics over windows": r"\bstddev\(x[^()]*\) OVER",
    "distinct averages": r"avg\(DISTINCT",
    "distinct lists": r"collect_list\(DISTINCT",
    "a part of a part": r"FROM \(SELECT [^()]* LIMIT \d( OFFSET \d)?\) OFFSET",
    "a correlated limit": r"\(SELECT \S+ FROM [^()]* WHERE [^()]* ORDER BY [^()]* LIMIT 1\)",
    "a correlated offset without an order": r"\(SELECT \S+ FROM [^()]* WHERE [^()]*(?<!ORDER)[^()]* LIMIT 1 OFFSET 1\)",
    "a lateral limit": r"LATERAL \(SELECT [^()]* ORDER BY [^()]* LIMIT \d\)",
    "a lateral window": r"LATERAL \(SELECT rank\(\) OVER",
    "a window in a correlated subquery": r"\(SELECT max\(w\) FROM \(SELECT \w+\(\d?\) OVER",
    "a subquery as a group key": r"\(SELECT count\(\*\) FROM \S+ AS \w+\) AS c1.* GROUP BY",
    "a subquery in a join key": r" ON \(\S+ \+ \(SELECT count\(\*\) FROM",
    "a subquery in a key of IN": r"\+ \(SELECT count\(\*\) FROM [^()]*\)\) (NOT )?IN \(SELECT",
    "constants without a use": r"SELECT count\(\*\) AS c0 FROM (range|\(VALUES)",
    "constants beside rows": r"CROSS JOIN (range|\(VALUES)",
    "first values": r"\bfirst_value\([^()]*\) AS",
    "lists without an order": r"listagg\(\S+, ';'\) AS",
    "the largest two": r"max_by\(\S+, \S+, 2\)",
    "sketches": r"hll_sketch_agg\(",
    "the top": r"approx_top_k\(",
    "variants": r"parse_json\(",
    "system columns": r"\b_(commit|offset|partition)\b",
    "changes": r"changes\('t\d'\) AS .*\boperation\b",
    "versions": r"versions\('t\d'\) AS .*\bvalid_to\b",
    "as-of joins": r"LEFT ASOF JOIN .* MATCH_CONDITION \(\S+ >= \S+\) ON \S+ = ",
    "versions that are too old": r"ASOF JOIN .* MATCH_CONDITION .* <= INTERVAL 1 HOUR",
    "joins of close times": r"JOIN .* ON .* AND \S+ (BETWEEN \S+ - INTERVAL 30|< \S+ \+ INTERVAL 45)",
    "sessions": r"GROUP BY session_window\(\S+, '\d+ \w+'\), 2",
    "sessions whose gap depends on the row": r"session_window\(\S+, CASE WHEN",
    "the clock": r"timestamp 'now'",
    "comparisons with the clock": r"WHERE [^()]* now\(\) [-+] INTERVAL",
    "comparisons with a watermark": r"WHERE [^()]* watermark\('[tT]\d'\)",
    "the clock after grouping": r"HAVING [^()]*max\([^()]*\) [<>]=? now\(\)",
    "signs of Spark's numbering in text": r"'b#12'",
    "names in another case": r"\bX?T\d AS x",
}


@pytest.mark.parametrize("pattern", SAID.values(), ids=SAID.keys())
def test_it_can_say(pattern: str) -> None:
    assert sum(re.search(pattern, sql) is not None for sql in many()) >= 3


def test_a_seed_decides_the_queries() -> None:
    assert list(queries(7, 30)) == list(queries(7, 30))
    assert list(queries(7, 30)) != list(queries(8, 30))


def commits(seed: int, topics: list[TopicPlan], count: int) -> list[Commit]:
    changes = Changes(seeded(seed), topics)
    return [changes.filling(), *(changes.commit() for _ in range(count))]


def test_a_seed_decides_the_changes() -> None:
    topics = random_topics(seeded(3))
    assert repr(commits(1, topics, 20)) == repr(commits(1, topics, 20))


def test_commits_change_several_topics() -> None:
    topics = random_topics(seeded(3))
    assert max(len({change.topic for change in commit}) for commit in commits(1, topics, 20)[1:]) >= 2


def test_a_shift_changes_all_rows_of_all_tables_in_one_commit() -> None:
    topics = failing_topics(seeded(1))
    changes = Changes(seeded(1), topics)
    first = {change.topic: {row["id"]: row for row in change.rows} for change in changes.filling()}
    second = {change.topic: {row["id"]: row for row in change.rows} for change in changes.shift()}
    assert second.keys() == {topic.name for topic in topics if topic.key}
    for topic, rows in second.items():
        assert rows.keys() == first[topic].keys()
        assert len({row["b"] - first[topic][key]["b"] for key, row in rows.items()}) == 1  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(20))
def test_a_shift_makes_a_pair_fail_that_never_was(seed: int) -> None:
    topics = failing_topics(seeded(seed))
    changes = Changes(seeded(seed), topics)
    before = {change.topic: {row["id"]: row for row in change.rows} for change in changes.first_rows()}
    after = {change.topic: {row["id"]: row for row in change.rows} for change in changes.shift()}
    assert any(row["a"] == after["t1"][key]["b"] for key, row in before["t0"].items())


def test_topics_have_ties_maps_and_doubles_that_cancel() -> None:
    topics = [topic for seed in range(60) for topic in random_topics(seeded(seed))]
    kinds = {kind for topic in topics for _, kind in topic.columns}
    assert kinds >= {"map<string,int>", "decimal(8,2)", "decimal(12,2)", "array<int>"}
    assert any(topic.wild for topic in topics)
    assert any(topic.compacted for topic in topics)
    assert any(name != name.lower() for topic in topics for name, _ in topic.columns)


FAILURES = {
    "by zero": r"100 / \(x\.a - y\.b\)",
    "not a number": r"CAST\(x\.s AS int\)",
    "out of bounds": r"x\.l\[2\]",
    "too large": r"x\.big \+ ",
    "more than one row": r"\(SELECT y\.a FROM",
    "guarded": r"CASE WHEN \(x\.a - [xy]\.b\) <> 0 THEN",
    "of aggregates": r"100 / \(sum\(",
}


@pytest.mark.parametrize("pattern", FAILURES.values(), ids=FAILURES.keys())
def test_it_can_fail(pattern: str) -> None:
    dice = seeded(1)
    made = FailingQueries(dice, failing_topics(dice))
    found = [made.query() for _ in range(400)]
    assert any(re.search(pattern, one.sql) for one in found)
    assert all(one.reads for one in found)
