"""The past over HTTP: views as they were, and queries over topics and earlier positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client.synchronous import Client
from headwater.errors import RequestRefused
from headwater.model.position import Position
from tests.server.shop import Shop, opened


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


def ask(shop: Shop, sql: str) -> list[dict[str, object]]:
    answered = shop.client.post("/query", json={"sql": sql})
    assert answered.status_code == 200, answered.text
    rows: list[dict[str, object]] = answered.json()["rows"]
    return rows


def test_a_view_as_it_was(shop: Shop) -> None:
    first = shop.append({"user": 1, "url": "/"})
    shop.publish((3, "three", 1))
    second = shop.append({"user": 2, "url": "/"})
    shop.publish((1, "one", -1))
    then = shop.client.get("/views/v", params={"at": first, "order": "key"}).json()
    assert (then["position"], [row["key"] for row in then["rows"]], then["matching"]) == (first, [1, 2, 3], 3)
    now = shop.client.get("/views/v", params={"at": second, "order": "key"}).json()
    assert [row["key"] for row in now["rows"]] == [2, 3]
    with Client(shop.server.url) as client:
        assert len(client.read("v", at=Position.parse(first)).rows) == 3
        with pytest.raises(RequestRefused, match="not both"):
            client.read("v", at=Position.parse(first), at_least=Position.parse(first))
    texts = f"SELECT text FROM v AT POSITION '{first}' EXCEPT SELECT text FROM v"
    assert ask(shop, texts) == [{"text": "one"}]


def test_a_position_that_is_not_kept_or_to_come(shop: Shop) -> None:
    last = int(shop.append({"user": 3}, {"user": 4}))
    shop.append({"user": 5})
    shop.publish((9, "nine", 1))
    between = shop.client.get("/views/v", params={"at": last})
    assert (between.status_code, between.json()["error"]["code"]) == (400, "view_position_between")
    ahead = shop.client.get("/views/v", params={"at": last + 100, "wait": 0})
    assert (ahead.status_code, ahead.json()["error"]["code"]) == (504, "not_yet")
    assert shop.client.get("/views/v", params={"at": "soon"}).status_code == 400


def test_topics_are_queried_at_the_position_of_the_views(shop: Shop) -> None:
    shop.append({"id": 1, "country": "DE", "amount": "5.00"}, {"id": 2, "country": "FR"}, topic="orders")
    shop.append({"id": 1, "country": "FR", "amount": "6.00"}, topic="orders")
    by_country = "SELECT country, count(*) AS n, min(_offset) IS NOT NULL AS yes FROM orders GROUP BY country"
    assert ask(shop, by_country) == [{"country": "FR", "n": 2, "yes": True}]
    with_view = "SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM v) > 0 AS v"
    assert ask(shop, with_view) == [{"orders": 0, "v": True}]
    shop.publish((8, "eight", 1))
    assert ask(shop, with_view) == [{"orders": 2, "v": True}]


def test_a_topic_that_is_too_large_ends_its_query_alone(tmp_path: Path) -> None:
    limits = {"query_views_bytes_max": 32 << 20, "query_bytes_max": 64 << 20}
    with opened(tmp_path, limits=limits) as shop:
        for _ in range(8):
            shop.app.log.append("clicks", [{"user": 1, "body": bytes(64 << 20)}])
        answered = shop.client.post("/query", json={"sql": "SELECT sum(octet_length(body)) AS n FROM clicks"})
        assert (answered.status_code, answered.json()["error"]["code"]) == (422, "query_out_of_memory")
        assert answered.json()["error"]["hint"].endswith("The limit is query_views_bytes_max.")
        assert ask(shop, "SELECT count(*) AS n FROM v") == [{"n": 2}]
