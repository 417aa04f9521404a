"""Topics and views are read over HTTP: pages, conditions, keys, queries, and at a position at least."""

from __future__ import annotations

import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.server.running import SWITCH_SECONDS
from tests.server.shop import Shop, following, opened


def fill(shop: Shop) -> None:
    for first in range(0, 50, 5):
        rows = [{"id": number, "country": "DE" if number % 2 else "FR"} for number in range(first, first + 5)]
        shop.append(*rows, topic="orders")


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
@pytest.mark.parametrize("where", ["", "&where=country:eq:DE"])
def test_pages_have_every_record_once_in_commit_order(shop: Shop, limit: int, where: str) -> None:
    fill(shop)
    found, start, pages = list[tuple[int, int]](), "earliest", 0
    while True:
        page = shop.client.get(f"/topics/orders/records?from={start}&limit={limit}{where}").json()
        found += [(int(one["position"]), one["value"]["id"]) for one in page["records"]]
        start, pages = page["next"], pages + 1
        assert len(page["records"]) <= limit
        if page["end"]:
            break
    assert sorted(number for _, number in found) == [n for n in range(50) if not where or n % 2]
    assert [position for position, _ in found] == sorted(position for position, _ in found)
    assert pages >= len(found) // limit


def test_where_a_reading_begins(shop: Shop) -> None:
    fill(shop)

    def count(start: str) -> int:
        return len(shop.client.get("/topics/orders/records", params={"from": start}).json()["records"])

    assert (count("earliest"), count("latest"), count("position:8"), count("last:2")) == (50, 0, 10, 4)
    assert count("time:2020-01-01T00:00:00Z") == 50
    assert count("time:2999-01-01") == 0
    assert count("position:999") == 0
    one = shop.client.get("/topics/orders/records?from=offset:3&limit=1&partition=1").json()["records"][0]
    assert (one["partition"], one["offset"]) == (1, 3)
    for wrong in ("nowhere", "time:yesterday", "offset:-1", "offsets:1.2.3", "position:1e9"):
        assert shop.client.get("/topics/orders/records", params={"from": wrong}).status_code == 400


def test_a_record_has_everything_that_is_known_of_it(shop: Shop) -> None:
    shop.append({"id": 1, "amount": 1.50, "_headers": {"from": "test"}}, topic="orders")
    shop.append({"id": 1, "_deleted": True}, topic="orders")
    first, second = shop.client.get("/topics/orders/records").json()["records"]
    assert first["value"] == {"id": 1, "country": None, "amount": "1.50"}
    assert (first["headers"], first["deleted"], first["position"]) == ({"from": "test"}, False, "1")
    assert (second["value"], second["deleted"], second["position"]) == ({"id": 1}, True, "2")


def test_topics_are_described(shop: Shop) -> None:
    fill(shop)
    topics = {one["name"]: one for one in shop.client.get("/topics").json()["topics"]}
    assert topics.keys() == {"orders", "clicks", "dead", "pushes"}
    assert (topics["orders"]["records"], topics["orders"]["kind"]) == (50, "table")
    assert topics["dead"]["is_dead_letter"]
    with shop.app.log.consumer("orders", group="g") as consumer:
        consumer.poll(timedelta(0))
        detail = shop.client.get("/topics/orders").json()
        assert [one["group"] for one in detail["groups"]] == ["g", "g"]
        assert {one["topic"] for one in shop.client.get("/groups").json()["groups"]} == {"orders"}
    assert sum(one["records"] for one in detail["partitions"]) == 50
    assert detail["schemas"][0]["schema"] == "id bigint, country string, amount decimal(12,2)"
    assert detail["settings"]["cleanup"] == "delete"
    assert shop.client.get("/topics/nope").status_code == 404


def test_a_view_is_read_by_condition_order_and_page(shop: Shop) -> None:
    shop.publish(*((number, f"t{number}", 1) for number in range(3, 11)), position=5)
    answered = shop.client.get("/views/v?where=key:ge:5&order=-key&limit=2&offset=1")
    assert answered.headers["Headwater-Position"] == answered.json()["position"] == "5"
    assert answered.json()["rows"] == [{"key": 9, "text": "t9"}, {"key": 8, "text": "t8"}]
    assert answered.json()["matching"] == 6
    assert shop.client.get("/views/v?where=nope:eq:1").status_code == 400
    assert shop.client.get("/views/nope").status_code == 404


def test_rows_are_found_by_their_key(shop: Shop) -> None:
    assert shop.client.get("/views/v/rows/2").json() == {
        "position": "0", "key": {"key": 2}, "rows": [{"key": 2, "text": "two"}]
    }  # fmt: skip
    shop.publish((2, "two", -1), (2, "zwei", 1), (3, "three", 1), position=1)
    assert shop.client.get("/views/v/rows/2").json()["rows"] == [{"key": 2, "text": "zwei"}]
    shop.publish((3, "three", -1), position=2)
    gone = shop.client.get("/views/v/rows/3")
    assert (gone.status_code, gone.json()["error"]["code"], gone.json()["error"]["position"]) == (
        404,
        "no_such_row",
        "2",
    )
    assert shop.client.get("/views/v/rows/x").status_code == 400
    assert shop.client.get("/views/v/rows/1/2").status_code == 400
    assert shop.client.get("/views/nope/rows/1").status_code == 404


def test_a_key_of_several_columns_may_have_slashes_in_it(tmp_path: Path) -> None:
    with opened(tmp_path) as shop:
        shop.app._keys["v"] = ("text", "key")
        shop.publish((7, "a/b %", 1), position=1)
        assert shop.client.get("/views/v/rows/a%2Fb%20%25/7").json()["rows"] == [{"key": 7, "text": "a/b %"}]
        assert shop.client.get("/views/v/rows/a/b%20%25/7").status_code == 400


def test_a_key_may_be_called_like_a_page_of_the_view(tmp_path: Path) -> None:
    with opened(tmp_path) as shop:
        shop.app._keys["v"] = ("text",)
        words = ("changes", "definition", "verify", "rows")
        shop.publish(*((number, word, 1) for number, word in enumerate(words)), position=1)
        for number, word in enumerate(words):
            assert shop.client.get(f"/views/v/rows/{word}").json()["rows"] == [{"key": number, "text": word}]


def test_a_query_reads_all_views_at_one_position(shop: Shop) -> None:
    answered = shop.client.post("/query", json={"sql": "SELECT count(*) AS n, max(text) AS t FROM v"})
    assert answered.json() == {
        "position": "0",
        "columns": [{"name": "n", "type": "bigint"}, {"name": "t", "type": "string"}],
        "rows": [{"n": 2, "t": "two"}],
        "cut": False,
    }


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("SELECT * FROM nope", 404, "unknown_view"),
        ("SELEC", 422, "invalid_query"),
        ("SELECT 1; SELECT 2", 422, "invalid_query"),
        ("CREATE TABLE x (a int)", 422, "invalid_query"),
        ("SELECT * FROM read_csv('/etc/hostname')", 422, "invalid_query"),
        ("COPY v TO '/tmp/x.csv'", 422, "invalid_query"),
        ("SELECT * FROM snapshot", 404, "unknown_view"),
        ("SELECT 1 / 'x'", 422, "invalid_query"),
    ],
)
def test_a_query_only_reads_and_only_views(shop: Shop, sql: str, status: int, code: str) -> None:
    answered = shop.client.post("/query", json={"sql": sql})
    assert (answered.status_code, answered.json()["error"]["code"]) == (status, code)


def test_a_query_is_limited_in_time_and_rows(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"query_seconds_max": 1, "query_rows_max": 5, "queries_max": 1}) as shop:
        cut = shop.client.post("/query", json={"sql": "SELECT * FROM range(1000000000)"}).json()
        assert (len(cut["rows"]), cut["cut"]) == (5, True)
        whole = shop.client.post("/query?limit=3", json={"sql": "SELECT * FROM range(3)"}).json()
        assert (len(whole["rows"]), whole["cut"]) == (3, False)
        long = "SELECT count(*) FROM range(1000000000000) a, range(1000) b"
        for sql in (long, f"EXPLAIN ANALYZE {long}"):
            began = time.monotonic()
            slow = shop.client.post("/query", json={"sql": sql})
            assert (slow.status_code, slow.json()["error"]["code"]) == (422, "query_too_long")
            assert time.monotonic() - began < 20
        shop.service.queries = 1
        assert shop.client.post("/query", json={"sql": "SELECT 1"}).status_code == 429


def test_a_query_is_limited_in_bytes_and_memory(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"query_answer_bytes_max": 1 << 20, "query_bytes_max": 50 << 20}) as shop:
        large = shop.client.post("/query", json={"sql": "SELECT repeat('x', 10000) AS x FROM range(1000)"})
        assert (large.status_code, large.json()["error"]["code"]) == (422, "query_too_large")
        grouped = "SELECT count(*) FROM (SELECT range, count(*) FROM range(50000000) GROUP BY range)"
        greedy = shop.client.post("/query", json={"sql": grouped})
        assert (greedy.status_code, greedy.json()["error"]["code"]) == (422, "query_out_of_memory")
        assert greedy.json()["error"]["limit"] == "query_bytes_max"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("'infinity'::timestamp", "<value out of range: 9223372036854775807>"),
        ("[DATE '99999-01-01']", ["<value out of range: 35804357>"]),
        ("TIMESTAMPTZ '2026-01-31 12:00:00+01'", "2026-01-31T11:00:00Z"),
        ("['nan'::double, 1]::double[2]", ["NaN", 1.0]),
    ],
)
def test_every_value_of_a_query_has_a_form(shop: Shop, value: str, shown: object) -> None:
    answered = shop.client.post("/query", json={"sql": f"SELECT {value} AS x"})
    assert answered.status_code == 200
    assert answered.json()["rows"] == [{"x": shown}]


@pytest.mark.parametrize("body", [b'{"sql": "SELECT \'\\ud800\'"}', b'{"sql": 1}', b'{"sql": "", "x": 1}', b"7", b"{"])
def test_what_is_not_a_query(shop: Shop, body: bytes) -> None:
    answered = shop.client.post("/query", content=body, headers={"Content-Type": "application/json"})
    assert (answered.status_code, answered.json()["error"]["code"]) == (400, "bad_request")


@pytest.mark.parametrize("path", ["/views/v", "/views/v/rows/1", "/views", "/views/v/definition", "/query"])
def test_a_read_waits_for_its_position(shop: Shop, path: str) -> None:
    def ask(wait: float) -> tuple[int, dict[str, object]]:
        params: dict[str, str | float] = {"at_least": 1, "wait": wait}
        if path == "/query":
            answered = shop.client.post(path, params=params, json={"sql": "SELECT * FROM v"})
        else:
            answered = shop.client.get(path, params=params)
        return answered.status_code, answered.json()

    began = time.monotonic()
    status, body = ask(0.2)
    error = body["error"]
    assert isinstance(error, dict)
    assert (status, error["code"], error["position"]) == (504, "not_yet", "0")
    assert 0.2 <= time.monotonic() - began < 10
    later = threading.Timer(0.3, lambda: shop.publish((9, "nine", 1), position=4))
    later.start()
    status, body = ask(20)
    later.join()
    assert (status, body["position"]) == (200, "4")


def test_a_thread_that_computes_lets_requests_in(shop: Shop) -> None:
    """At Python's own interval, each of the three threads that a read goes through waits for 5 ms."""
    ended = threading.Event()

    def compute() -> None:
        while not ended.is_set():
            sum(range(1000))

    assert sys.getswitchinterval() <= SWITCH_SECONDS
    computing = threading.Thread(target=compute)
    computing.start()
    try:
        assert shop.client.get("/views/v/rows/1").status_code == 200
    finally:
        ended.set()
        computing.join()


def test_many_that_wait_hold_up_nobody(shop: Shop) -> None:
    """More of them than there are threads."""
    waiting = [threading.Thread(target=lambda: shop.client.get("/views/v?at_least=9&wait=25")) for _ in range(60)]
    for thread in waiting:
        thread.start()
    time.sleep(0.5)
    assert shop.client.get("/views/v/rows/1").status_code == 200
    shop.publish((9, "nine", 1), position=9)
    for thread in waiting:
        thread.join(20)
        assert not thread.is_alive()


def test_a_topic_is_read_behind_a_position(shop: Shop) -> None:
    late = shop.client.get("/topics/clicks/records?at_least=1&wait=0.1")
    assert late.status_code == 504
    assert late.json()["error"]["message"] == "The log did not reach position 1 within 0.1 s: it is at position 0."
    position = shop.append({"url": "a"})
    page = shop.client.get(f"/topics/clicks/records?at_least={position}").json()
    assert len(page["records"]) == 1
    assert int(page["position"]) >= int(position)


def test_nothing_is_published_yet(tmp_path: Path) -> None:
    with opened(tmp_path) as shop:
        shop.driver.store.delete_state()
        until = time.monotonic() + 10
        while shop.service.view_moves.position is not None and time.monotonic() < until:
            time.sleep(0.05)
        for path in ("/views/v", "/views/v/rows/1", "/views/v/changes"):
            answered = shop.client.get(path)
            assert (answered.status_code, answered.json()["error"]["position"]) == (504, None)
        assert shop.client.get("/views").json()["position"] is None
        assert [one["published"] for one in shop.client.get("/views").json()["views"]] == [False, False]
        assert shop.client.get("/readyz").status_code == 503
        assert shop.client.get("/flow").json()["behind"] is None


def test_a_topic_is_followed_and_gone_on_with(shop: Shop) -> None:
    shop.append({"url": "a"}, {"url": "b"})
    with following(shop.server.url, "/topics/clicks/records?from=earliest") as events:
        first = events.next()
        assert (first.name, [one["value"]["url"] for one in first.data["records"]]) == ("records", ["a", "b"])
        shop.append({"url": "c"})
        second = events.next()
        assert [one["value"]["url"] for one in second.data["records"]] == ["c"]
    shop.append({"url": "d"})
    with following(shop.server.url, "/topics/clicks/records", first.id) as events:
        assert [one["value"]["url"] for one in events.next().data["records"]] == ["c", "d"]
    with following(shop.server.url, "/topics/clicks/records?from=latest&where=url:contains:y") as events:
        shop.append({"url": "x"})
        shop.append({"url": "y"})
        assert [one["value"]["url"] for one in events.next().data["records"]] == ["y"]
