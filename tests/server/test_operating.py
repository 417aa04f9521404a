"""How everything is: health, metrics, pipelines, verification, dead letters, webhooks, the flow and its history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headwater.engine.publication import BatchCommit, Excluded
from headwater.errors import RecordFailed
from headwater.log.embedded.position import commit_position
from headwater.model.receivers import WebhookIn
from headwater.server.service import Running
from headwater.server.signatures import sign
from tests.server.shop import SECRET, Shop, opened
from tests.unit.engine.samples import at


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.05)


def test_it_lives_and_is_ready(shop: Shop) -> None:
    alive = shop.client.get("/healthz").json()
    assert alive["status"] == "ok"
    assert alive["background"].keys() >= {"upkeep", "wake", "history", "tokens", "positions-log", "positions-views"}
    assert {one["status"] for one in alive["background"].values()} == {"running"}
    ready = shop.client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert shop.client.get("/").json()["name"] == "shop"


def test_a_pipeline_that_failed_is_told_everywhere(tmp_path: Path) -> None:
    running = Running(runs_here=True)
    with opened(tmp_path, running=running) as shop:
        assert shop.client.get("/pipelines").json()["pipelines"][0]["status"] == "up_to_date"
        running.failure, running.failed_at = RecordFailed("v", "clicks", 0, 7, "Division by zero."), datetime.now(UTC)
        pipeline = shop.client.get("/pipelines").json()["pipelines"][0]
        assert (pipeline["status"], pipeline["runs_here"]) == ("failed", True)
        assert (pipeline["error"]["code"], pipeline["error"]["offset"]) == ("record_failed", 7)
        assert "on_error='dead_letter'" in pipeline["error"]["hint"]
        ready = shop.client.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["pipeline"]["code"]) == (503, "record_failed")
        assert "headwater_pipeline_failed{} 1" in shop.client.get("/metrics").text
        assert shop.client.get("/flow").json()["status"] == "failed"


def test_retries_are_counted_wherever_the_pipeline_runs(tmp_path: Path, shop: Shop) -> None:
    shop.told["retries"] = 2
    shop.heart.beat()
    assert shop.client.get("/pipelines").json()["pipelines"][0]["retries"] == 2
    assert "headwater_pipeline_retries_total{} 2" in shop.client.get("/metrics").text
    with opened(tmp_path / "other", runs=False) as other:
        assert other.client.get("/pipelines").json()["pipelines"][0]["retries"] is None
        assert "headwater_pipeline_retries_total" not in other.client.get("/metrics").text


def test_the_pipeline_is_described(shop: Shop) -> None:
    shop.append({"url": "a"})
    shop.append({"url": "b"})
    shop.publish((5, "five", 1), position=1)
    pipeline = shop.client.get("/pipelines").json()["pipelines"][0]
    assert (pipeline["status"], pipeline["position"], pipeline["behind"]) == ("behind", "1", 1)
    assert [one["batch"] for one in pipeline["batches"]] == [1, 2]
    assert [one["status"] for one in pipeline["generations"]] == ["current"]


def test_metrics_are_what_happened(shop: Shop) -> None:
    shop.append({"url": "a"}, {"url": "b"})
    shop.client.get("/views/v/rows/1")
    shop.client.get("/views/v/rows/99")
    lines = shop.client.get("/metrics").text.splitlines()
    assert 'headwater_topic_records_total{topic="clicks",partition="0"} 2' in lines
    assert 'headwater_http_records_total{topic="clicks"} 2' in lines
    path = 'method="GET",path="/views/{view}/rows/{key:path}"'
    assert f'headwater_http_requests_total{{{path},status="200"}} 1' in lines
    assert f'headwater_http_requests_total{{{path},status="404"}} 1' in lines
    assert f"headwater_http_request_seconds_count{{{path}}} 2" in lines
    assert "headwater_behind_commits{} 1" in lines
    for line in lines:
        assert line.startswith("#") or len(line.rsplit(" ", 1)) == 2


def test_a_view_is_described(shop: Shop) -> None:
    detail = shop.client.get("/views/v/definition").json()
    assert (detail["view"]["sql"], detail["view"]["key"]) == ("SELECT key, text FROM clicks", ["key"])
    assert [one["name"] for one in detail["view"]["columns"]] == ["key", "text"]
    assert shop.client.get("/views/w/definition").json()["view"]["published"] is False
    assert shop.client.get("/views/nope/definition").status_code == 404


def test_a_view_is_verified_and_the_result_is_kept(tmp_path: Path) -> None:
    found: dict[str, Any] = {"position": "0", "rows": 2, "equal": True, "differences": 0, "examples": []}
    asked: list[str] = []

    def verify(view: str) -> dict[str, object]:
        asked.append(view)
        return found

    with opened(tmp_path, verify=verify) as shop:
        assert shop.client.get("/views/v/verify").json() == {"view": "v", "status": "never"}
        begun = shop.client.post("/views/v/verify")
        assert (begun.status_code, begun.json()["view"]) == (202, "v")
        until(lambda: shop.client.get("/views/v/verify").json()["status"] == "done")
        assert shop.client.get("/views/v/verify").json()["result"]["equal"] is True
        assert shop.client.post("/views/nope/verify").status_code == 404
        assert "headwater_verifications_total{} 1" in shop.client.get("/metrics").text
    with opened(tmp_path, verify=verify) as shop:
        kept = shop.client.get("/views/v/definition").json()["view"]["verification"]
        assert (kept["status"], kept["result"]["rows"]) == ("done", 2)
    assert asked == ["v"]


def test_a_verification_that_fails_says_why(tmp_path: Path) -> None:
    def verify(view: str) -> dict[str, object]:
        if view == "v":
            raise RecordFailed("v", "clicks", 0, 7, "Division by zero.")
        raise RuntimeError("secret detail")

    with opened(tmp_path, verify=verify) as shop:
        for view, code in (("v", "record_failed"), ("w", "verification_failed")):
            shop.client.post(f"/views/{view}/verify")
            until(lambda: shop.client.get(f"/views/{view}/verify").json()["status"] == "failed")  # noqa: B023
            state = shop.client.get(f"/views/{view}/verify")
            assert state.json()["error"]["code"] == code
            assert "secret detail" not in state.text


def letters(shop: Shop, state: str = "open") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.client.get(f"/dead-letters?state={state}").json()["letters"]
    return found


def test_dead_letters_are_sent_again_once_or_discarded(shop: Shop) -> None:
    shop.client.post("/topics/orders/records", json=[{"id": "x", "country": "DE"}, {"id": "y"}, {"id": 3}])
    first, second = sorted(letters(shop), key=lambda letter: letter["offset"])
    assert (first["kind"], first["topic"], first["original"]["text"]) == (
        "rejected",
        "orders",
        '{"id":"x","country":"DE"}',
    )
    assert shop.client.get(f"/dead-letters/{first['id']}").json() == first
    url = f"/dead-letters/{first['id']}/send"
    assert shop.client.post(url, json=[1]).status_code == 400
    sent = shop.client.post(url, json={"id": 1, "country": "DE"})
    assert (sent.status_code, sent.json()["state"]) == (200, "sent")
    again = shop.client.post(url, json={"id": 1, "country": "DE"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "dealt_with")
    assert shop.client.post(f"/dead-letters/{second['id']}/discard").status_code == 200
    assert shop.client.post(f"/dead-letters/{second['id']}/discard").status_code == 409
    assert letters(shop) == []
    assert shop.client.get("/dead-letters").json()["counts"] == {"open": 0, "sent": 1, "discarded": 1, "superseded": 0}
    assert {one["state"] for one in letters(shop, "any")} == {"sent", "discarded"}
    assert sorted(shop.app.log.table("orders")["id"].to_pylist()) == [1, 3]


def test_records_that_a_view_refuses_are_dead_letters_too(shop: Shop) -> None:
    shop.append({"user": 1, "url": "a"}, {"user": 2, "url": "poison"})
    driver = shop.driver
    refused = [Excluded("v", "clicks", 0, 1, "Division by zero.")]
    driver.store.commit(BatchCommit(driver.generation, driver.epoch, 2, at(1), [], excluded=refused))
    (letter,) = letters(shop)
    assert (letter["kind"], letter["view"], letter["reason"]) == ("refused", "v", "Division by zero.")
    assert letter["original"]["value"]["url"] == "poison"
    assert shop.client.post(f"/dead-letters/{letter['id']}/send", json={"user": 2, "url": "fixed"}).status_code == 200
    assert letters(shop) == []
    assert [record.value["url"] for record in shop.app.log.read("clicks") if record.value][-1] == "fixed"


def test_an_unknown_dead_letter(shop: Shop) -> None:
    for identity in ("x", "dead~0~99", "clicks~0~0", "nope~0~0", "dead~9~0", "v~0~0~v", "dead~0~" + "9" * 18):
        assert shop.client.get(f"/dead-letters/{identity}").status_code == 404
        assert shop.client.post(f"/dead-letters/{identity}/discard").status_code == 404


def test_a_webhook_is_taken_once(shop: Shop) -> None:
    body = json.dumps({"action": "opened"}).encode()
    hook = WebhookIn("github", "pushes", "github", (SECRET,))
    headers = {**sign(hook, "d-1", body, datetime.now(UTC)), "Content-Type": "application/json", "X-GitHub-Event": "pr"}
    first = shop.client.post("/hooks/github", content=body, headers=headers)
    again = shop.client.post("/hooks/github", content=body, headers=headers)
    assert (first.status_code, first.json()["duplicate"]) == (200, False)
    assert again.json() == {**first.json(), "duplicate": True}
    (record,) = shop.app.log.read("pushes")
    assert record.value is not None
    assert (record.value["id"], record.value["event"], record.value["body"]) == ("d-1", "pr", body.decode())
    forged = shop.client.post("/hooks/github", content=body + b" ", headers=headers)
    assert (forged.status_code, forged.json()["error"]["code"]) == (401, "bad_signature")
    assert shop.client.post("/hooks/nope", content=body, headers=headers).status_code == 404
    assert shop.client.get("/hooks").json() == {"hooks": [{"name": "github", "topic": "pushes", "style": "github"}]}


def test_the_flow_shows_everything_from_left_to_right(shop: Shop) -> None:
    shop.append({"id": 1}, topic="orders")
    flow = shop.client.get("/flow").json()
    kinds = {one["id"]: one["kind"] for one in flow["nodes"]}
    assert (
        kinds.items() >= {"topic:orders": "topic", "view:v": "view", "hook:github": "hook", "http:http": "http"}.items()
    )
    edges = {(one["from"], one["to"]) for one in flow["edges"]}
    assert edges >= {
        ("http:http", "topic:orders"),
        ("topic:orders", "topic:dead"),
        ("hook:github", "topic:pushes"),
        ("topic:clicks", "view:v"),
    }
    ends = {end for edge in edges for end in edge}
    assert ends <= kinds.keys()


def test_the_flow_says_how_far_a_group_is_behind(shop: Shop) -> None:
    shop.append({"url": "a"}, {"url": "b"})
    shop.append({"url": "c"})
    with shop.app.log.consumer("clicks", group="mailer", idle_timeout=timedelta(seconds=1)) as consumer:
        next(iter(consumer))
        consumer.commit()
    shop.append({"url": "d"}, {"url": "e"})
    flow = shop.client.get("/flow").json()
    (edge,) = [one for one in flow["edges"] if one["to"] == "group:mailer"]
    (node,) = [one for one in flow["nodes"] if one["id"] == "group:mailer"]
    assert edge["from"] == "topic:clicks"
    assert edge["lag"] == node["lag"] >= 2


def test_history_counts_records_and_changes(shop: Shop) -> None:
    until(lambda: shop.service.history.samples)
    shop.append({"url": "a"}, {"url": "b"})
    shop.publish((7, "seven", 1), (8, "eight", 1), position=1)
    until(lambda: shop.service.history.samples[-1].view_position == commit_position(1))
    body = shop.client.get("/history?seconds=60").json()
    last = body["samples"][-1]
    assert (last["topics"]["clicks"], last["views"]["v"], last["behind"]) == (2, 2, 0)
    assert last["freshness_seconds"] is not None
    assert body["samples"] == sorted(body["samples"], key=lambda sample: sample["at"])


def test_errors_have_one_body(shop: Shop) -> None:
    for method, path in (("GET", "/nope"), ("DELETE", "/views"), ("GET", "/views/"), ("PUT", "/topics/x/records")):
        answered = shop.client.request(method, path)
        assert answered.json()["error"].keys() >= {"code", "message", "hint"}
        assert answered.status_code in (400, 404, 405)
    assert set(shop.client.delete("/topics/x/records").headers["Allow"].split(", ")) == {"GET", "POST"}
