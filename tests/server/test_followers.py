"""Followers over HTTP: who holds what, what they have missed, and released when they no longer exist."""

from __future__ import annotations

from datetime import timedelta

from headwater.model.position import START
from tests.server.shop import Shop


def begin(shop: Shop) -> None:
    """Pipeline `gone/1` has missed the first of two records, and `shop/1` has read both; a group has read none."""
    log = shop.app.log
    log.create("ring", "id bigint", retention_bytes=1, hold_bytes_max=0, views="keep")
    log.followers.hold("gone/1", "pipeline", START, ["ring"])
    first = log.append("ring", [{"id": 1}])
    log.maintenance.seal("ring")
    log.append("ring", [{"id": 2}])
    log.followers.hold("shop/1", "pipeline", log.position(), ["ring"])
    log.maintenance.upkeep()
    assert log.offsets("ring")[0][0] >= 1
    log.followers.hold("gone/1/base", "base", first, ["ring"])
    with log.consumer("clicks", group="readers") as consumer:
        consumer.poll(timedelta(0))


def test_followers_are_listed_with_what_they_hold_and_missed(shop: Shop) -> None:
    begin(shop)
    found = shop.client.get("/followers").json()
    by_name = {one["name"]: one for one in found["followers"]}
    assert {name: one["kind"] for name, one in by_name.items()} == {
        "gone/1": "pipeline", "gone/1/base": "base", "shop/1": "pipeline", "readers": "group",
    }  # fmt: skip
    gone, here = by_name["gone/1"], by_name["shop/1"]
    [missed] = gone["missed"]
    assert (missed["topic"], missed["partition"], missed["first"], missed["records"]) == (
        "ring",
        0,
        0,
        missed["last"] + 1,
    )
    assert missed["reason"] == "hold_bytes_max is 0"
    assert [part["topic"] for part in here["partitions"]] == ["ring"]
    assert (here["missed"], here["position"], by_name["readers"]["position"]) == (
        [],
        str(shop.app.log.position()),
        None,
    )
    assert by_name["gone/1/base"]["partitions"][0]["alarms"] == []
    assert any("were deleted before they were read" in text for text in gone["partitions"][0]["alarms"])


def test_a_follower_is_released(shop: Shop) -> None:
    begin(shop)
    done = shop.client.delete("/followers", params={"name": "gone/1"})
    assert (done.status_code, done.json()) == (200, {"name": "gone/1"})
    assert shop.app.log.followers.find("gone/1") is None
    again = shop.client.delete("/followers", params={"name": "gone/1"})
    assert (again.status_code, again.json()["error"]["code"]) == (404, "unknown_follower")
    assert shop.client.delete("/followers", params={"name": "readers"}).status_code == 404
    assert shop.client.delete("/followers").status_code == 400
