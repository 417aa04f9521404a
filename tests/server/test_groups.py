"""Consumer groups over HTTP: shown with their members, moved and deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.server.shop import Shop


@pytest.fixture
def read(shop: Shop) -> Shop:
    """Group `g` has read 2 of 3 clicks."""
    shop.append({"url": "a"}, {"url": "b"})
    with shop.app.log.consumer("clicks", group="g") as consumer:
        assert consumer.poll(timedelta(seconds=10)) is not None
        consumer.commit()
    shop.append({"url": "c"})
    return shop


def offset(shop: Shop) -> int:
    [lag] = shop.app.log.lag("g")
    return lag.offset


def test_a_group_is_shown(read: Shop) -> None:
    shown = read.client.get("/groups/g").json()
    assert (shown["group"], shown["members"]) == ("g", [])
    [lag] = shown["partitions"]
    assert (lag["topic"], lag["partition"], lag["offset"], lag["end"], lag["records"]) == ("clicks", 0, 2, 3, 1)
    with read.app.log.consumer(["click?", "orders"], group="g", member="worker-1"):
        [member] = read.client.get("/groups/g").json()["members"]
    assert (member["name"], member["topics"]) == ("worker-1", ["clicks", "orders"])
    assert 0 < member["lease_left_seconds"] <= 10
    assert {one["group"] for one in read.client.get("/groups").json()["groups"]} == {"g"}


@pytest.mark.parametrize(
    ("to", "options", "after"),
    [
        ("earliest", {}, 0),
        ("latest", {}, 3),
        ("offset:1", {"topic": "clicks"}, 1),
        ("offset:1", {"partition": 0}, 1),
        ("position:0", {}, 0),
        ("position:1", {}, 2),
        ("time:1999-01-01T00:00:00Z", {}, 0),
        ("time:2999-01-01T00:00:00Z", {}, 3),
    ],
)
def test_a_group_is_moved(read: Shop, to: str, options: dict[str, str | int], after: int) -> None:
    dry = read.client.post("/groups/g/reset", params={"dry_run": "true", **options}, json={"to": to})
    assert offset(read) == 2
    done = read.client.post("/groups/g/reset", params=options, json={"to": to})
    assert done.status_code == 200, done.text
    assert done.json()["moves"] == [{"topic": "clicks", "partition": 0, "before": 2, "after": after}]
    assert dry.json()["moves"] == done.json()["moves"]
    assert done.json()["group"] == "g"
    assert offset(read) == after


def test_members_stand_in_the_way_unless_forced(read: Shop) -> None:
    with read.app.log.consumer("clicks", group="g", member="worker-1") as consumer:
        for refused in (
            read.client.post("/groups/g/reset", json={"to": "earliest"}),
            read.client.delete("/groups/g"),
        ):
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "group_active")
            assert refused.json()["error"]["members"] == ["worker-1"]
        assert read.client.post("/groups/g/reset", json={"to": "earliest"}, params={"force": "true"}).status_code == 200
        batch = consumer.poll(timedelta(seconds=10))
        assert batch is not None
        assert batch.records["url"].to_pylist() == ["a", "b", "c"]
        assert read.client.delete("/groups/g", params={"force": "true"}).json() == {"group": "g"}
    assert read.client.get("/groups").json()["groups"] == []


def test_a_deleted_group_is_not_there(read: Shop) -> None:
    assert read.client.delete("/groups/g").status_code == 200
    for answered in (
        read.client.get("/groups/g"),
        read.client.delete("/groups/g"),
        read.client.post("/groups/g/reset", json={"to": "earliest"}),
    ):
        assert (answered.status_code, answered.json()["error"]["code"]) == (404, "unknown_group")


@pytest.mark.parametrize(
    ("body", "options", "code"),
    [
        ({"to": "soon"}, {}, "bad_request"),
        ({"to": "offset:x"}, {}, "bad_request"),
        ({"to": "time:soon"}, {}, "bad_request"),
        ({"to": "position:nowhere"}, {}, "usage"),
        ({"to": "position:999"}, {}, "usage"),
        ({"to": "offset:9"}, {}, "usage"),
        ({"to": "latest"}, {"partition": 0}, "bad_request"),
        ({"to": "earliest"}, {"topic": "orders"}, "usage"),
        ({"to": "earliest"}, {"topic": "none"}, "unknown_topic"),
        ({"to": "earliest"}, {"force": "yes"}, "bad_request"),
        ({"to": 1}, {}, "bad_request"),
        ({}, {}, "bad_request"),
    ],
)
def test_a_move_that_cannot_be_made_is_refused(
    read: Shop, body: dict[str, object], options: dict[str, str | int], code: str
) -> None:
    refused = read.client.post("/groups/g/reset", json=body, params=options)
    assert 400 <= refused.status_code < 500
    assert refused.json()["error"]["code"] == code
    assert offset(read) == 2
