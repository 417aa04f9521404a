"""Changed views over HTTP: what is built, what it changes, and who decides."""

from __future__ import annotations

from headwater.engine.publication import BatchCommit
from tests.server.shop import Shop
from tests.unit.engine.samples import Driver, at, definition, write, zset


def propose(driver: Driver) -> int:
    """Another version of the view, in which row 2 has another text and row 3 is new."""
    built = driver.store.open_generation("changed", definition("v", sql="SELECT 3")).id
    rows = zset((1, 1, "one", 1), (2, 2, "zwei", 1), (3, 3, "three", 1))
    runs = write(driver.store, {"view/v": rows})
    driver.store.commit(BatchCommit(built, driver.epoch, 1, at(0), runs))
    return built


def test_a_candidate_is_shown_compared_and_switched_to(shop: Shop) -> None:
    assert shop.client.get("/candidate").json() == {"candidate": None, "build": None}
    none = shop.client.get("/views/v/candidate")
    assert (none.status_code, "no candidate" in none.json()["error"]["message"]) == (404, True)
    built = propose(shop.driver)
    shop.told["build"] = {"views": ["v"], "done": 5, "total": 10, "seconds_left": 1.5, "error": None}
    shop.heart.beat()
    assert shop.client.get("/candidate").json() == {
        "candidate": {
            "generation": built, "views": ["v"], "position": "0", "is_ready": True, "is_former": False, "wish": None,
        },
        "build": shop.told["build"],
    }  # fmt: skip
    assert shop.client.get("/pipelines").json()["pipelines"][0]["build"] == shop.told["build"]
    found = shop.client.get("/views/v/candidate").json()
    assert (found["rows_before"], found["rows_after"]) == (2, 3)
    assert (found["removed"], found["added"], found["changed"]) == (0, 1, 1)
    assert (found["key"], found["changed_by_column"]) == (["key"], {"text": 1})
    assert found["samples"]["removed"] == [{"key": 2, "text": "two"}]
    assert shop.client.get("/views/v/candidate", params={"key": "text"}).json()["removed"] == 1
    assert shop.client.get("/views/nothing/candidate").status_code == 404
    assert shop.client.post("/candidate/rollback").status_code == 404
    decided = shop.client.post("/candidate/switch")
    assert (decided.status_code, decided.json()["decided"]["generation"]) == (200, built)
    texts = [row["text"] for row in shop.client.get("/views/v").json()["rows"]]
    assert sorted(texts) == ["one", "three", "zwei"]
    former = shop.client.get("/candidate").json()["candidate"]
    assert (former["is_former"], former["is_ready"]) == (True, True)
    assert shop.client.post("/candidate/rollback").status_code == 200
    assert sorted(row["text"] for row in shop.client.get("/views/v").json()["rows"]) == ["one", "two"]


def test_a_candidate_can_be_discarded(shop: Shop) -> None:
    propose(shop.driver)
    assert shop.client.delete("/candidate").status_code == 200
    assert shop.client.get("/candidate").json()["candidate"] is None
    assert shop.client.delete("/candidate").status_code == 404
    assert sorted(row["text"] for row in shop.client.get("/views/v").json()["rows"]) == ["one", "two"]
