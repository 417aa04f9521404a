"""Queries over topics: newest rows of tables, records of streams, beside views and at their position."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.querying import query
from headwater.engine.reading import Reader
from headwater.engine.topic_rows import TopicRows
from headwater.errors import InvalidQuery, NotYet, PositionGone, UnknownView
from headwater.log.port import Log
from headwater.model.position import Position
from tests.unit.engine.samples import Driver, zset

NOW = timedelta(0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with hw.open(tmp_path / "log") as log:
        log.create("orders", "id bigint, amount double", key="id", partitions=2)
        log.create("clicks", "url string")
        log.create("shop.visits", "who string")
        yield log


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path / "views")
    yield driver
    driver.close()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with Reader(tmp_path / "views") as reader:
        yield reader


def put(log: Log, *ids: int) -> Position:
    return log.append("orders", [{"id": number, "amount": number / 2} for number in ids])


def ask(log: Log, reader: Reader, sql: str, at_least: Position | None = None) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = query(
        reader, sql, topics=TopicRows(log), at_least=at_least, timeout=NOW
    ).table.to_pylist()
    return rows


def test_a_table_shows_its_newest_rows_and_a_stream_its_records(log: Log, reader: Reader) -> None:
    put(log, 1, 2, 1)
    log.delete("orders", [{"id": 2}])
    log.append("clicks", [{"url": "/"}, {"url": "/"}])
    assert ask(log, reader, "SELECT * FROM orders") == [{"id": 1, "amount": 0.5}]
    assert ask(log, reader, "SELECT count(*) AS n FROM Clicks") == [{"n": 2}]
    answer = query(reader, "SELECT 1 FROM orders", topics=TopicRows(log))
    assert answer.position == log.position()


def test_names_with_dots_need_no_quotes(log: Log, reader: Reader) -> None:
    log.append("shop.visits", [{"who": "ann"}])
    assert ask(log, reader, "SELECT visits.who FROM shop.visits") == [{"who": "ann"}]
    assert ask(log, reader, 'SELECT v.who FROM "shop.visits" v') == [{"who": "ann"}]


def test_system_columns_are_there_if_they_are_named(log: Log, reader: Reader) -> None:
    put(log, 1, 2)
    last = put(log, 1)
    log.delete("orders", [{"id": 2}])
    log.append("clicks", [{"url": "/a"}, {"url": "/b"}])
    assert ask(log, reader, "SELECT id, _commit FROM orders") == [{"id": 1, "_commit": int(str(last))}]
    assert ask(log, reader, "SELECT _offset, _partition, url FROM clicks ORDER BY _offset") == [
        {"_offset": 0, "_partition": 0, "url": "/a"},
        {"_offset": 1, "_partition": 0, "url": "/b"},
    ]
    assert ask(log, reader, "SELECT max(_received_at) IS NOT NULL AS yes, count(_headers) AS n FROM orders") == [
        {"yes": True, "n": 0}
    ]
    assert ask(log, reader, "SELECT * FROM clicks WHERE url = '/a'") == [{"url": "/a"}]


def test_an_empty_topic_has_its_columns(log: Log, reader: Reader) -> None:
    answer = query(reader, "SELECT *, _commit AS c FROM orders", topics=TopicRows(log))
    assert (answer.table.num_rows, answer.table.column_names) == (0, ["id", "amount", "_commit", "c"])


def test_topics_are_at_the_position_of_the_views(log: Log, driver: Driver, reader: Reader) -> None:
    first = put(log, 1)
    driver.publish({"v": zset((1, 1, "a", 1))}, int(str(first)))
    put(log, 2)
    both = "SELECT v.key, count(o.id) AS n FROM v, orders o GROUP BY ALL"
    assert ask(log, reader, both) == [{"key": 1, "n": 1}]
    assert ask(log, reader, "SELECT count(*) AS n FROM orders") == [{"n": 2}]
    assert ask(log, reader, "SELECT count(COLUMNS('id')) AS n FROM orders, v") == [{"n": 1}]


def test_topics_as_they_were(log: Log, reader: Reader) -> None:
    first = put(log, 1)
    put(log, 1, 2)
    assert ask(log, reader, f"SELECT count(*) AS n FROM orders AT POSITION '{first}'") == [{"n": 1}]
    found = f"SELECT id FROM orders EXCEPT SELECT id FROM orders AT POSITION '{first}' o"
    assert ask(log, reader, found) == [{"id": 2}]
    with pytest.raises(NotYet, match="is at position"):
        ask(log, reader, "FROM orders AT POSITION '999'")


def test_views_as_they_were(log: Log, driver: Driver, reader: Reader) -> None:
    driver.publish({"v": zset((1, 1, "a", 1))})
    driver.publish({"v": zset((1, 1, "a", -1), (2, 2, "b", 1))})
    answer = query(reader, "SELECT v.text FROM v AT POSITION '1' WHERE key = 1", topics=TopicRows(log))
    assert (answer.table.to_pylist(), answer.position) == ([{"text": "a"}], Position.parse("1"))
    assert ask(log, reader, "SELECT w.text, v.text AS now FROM v AT POSITION '1' w, v") == [{"text": "a", "now": "b"}]


def test_what_is_not_there_is_named(log: Log, driver: Driver, reader: Reader) -> None:
    driver.publish({})
    with pytest.raises(UnknownView, match="There is no view or topic 'nothing'") as caught:
        ask(log, reader, "FROM nothing")
    assert caught.value.hint == "Views of this pipeline: v. Topics: clicks, orders, shop.visits."
    with pytest.raises(UnknownView, match="no view or topic 'nothing'"):
        ask(log, reader, "FROM nothing AT POSITION '1'")
    with pytest.raises(InvalidQuery, match="line 2, column 14"):
        ask(log, reader, "SELECT key FROM v AT POSITION '1'\nWHERE key = 1) + 1")


def test_a_position_that_the_log_has_not_reached_is_waited_for(log: Log, reader: Reader) -> None:
    position = put(log, 1)
    assert ask(log, reader, "SELECT id FROM orders", position) == [{"id": 1}]
    with pytest.raises(NotYet):
        ask(log, reader, "SELECT id FROM orders", Position.parse("999"))


def test_what_compaction_removed_is_not_made_up(log: Log, reader: Reader) -> None:
    log.create("states", "id bigint, v bigint", key="id", cleanup="compact")
    first = log.append("states", [{"id": 1, "v": 1}])
    log.append("states", [{"id": 1, "v": 2}])
    log.maintenance.seal("states")
    log.maintenance.compact("states")
    for columns in ("*", "_commit"):
        with pytest.raises(PositionGone):
            ask(log, reader, f"SELECT {columns} FROM states AT POSITION '{first}'")
    assert ask(log, reader, "SELECT v, _offset FROM states") == [{"v": 2, "_offset": 1}]


def test_keys_of_doubles_are_one_key(log: Log, reader: Reader) -> None:
    log.create("points", "x double, n bigint", key="x")
    log.append("points", pa.table({"x": [0.0, -0.0, float("nan"), float("nan")], "n": [1, 2, 3, 4]}))
    assert ask(log, reader, "SELECT n, _offset FROM points ORDER BY n") == [
        {"n": 2, "_offset": 1},
        {"n": 4, "_offset": 3},
    ]


def test_a_name_that_is_both_is_refused(log: Log, driver: Driver, reader: Reader) -> None:
    driver.publish({})
    log.create("v", "id bigint")
    with pytest.raises(InvalidQuery, match="'v' is a view and a topic"):
        ask(log, reader, "FROM v")
