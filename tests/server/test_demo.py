"""What the demo's server answers: what can be broken, who may, and what becomes of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.demo import incidents as incidents_module
from headwater.demo.endpoints import FILES
from headwater.demo.events import BURST_COUNT, LATE_COUNT, TOPIC
from headwater.demo.incidents import ACTIONS
from headwater.server import tokens as token_module
from headwater.server.tokens import Tokens
from tests.server.breaking import Broken, shop, until
from tests.server.shop import following


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broken]:
    monkeypatch.setattr(incidents_module, "DATABASE_DOWN_SECONDS", 0.5)
    monkeypatch.setattr(token_module, "LOOK_EVERY_SECONDS", 0.05)
    with shop(tmp_path) as made:
        yield made


def test_what_can_be_broken_is_told(broken: Broken) -> None:
    demo = broken.client.get("/demo").json()
    assert [one["name"] for one in demo["actions"]] == [action.name for action in ACTIONS]
    assert demo["processes"][0]["name"] == "database"
    assert demo["incidents"] == []
    broken.supervised.is_gone = True
    assert broken.client.get("/demo").json()["processes"] == demo["processes"]
    paths = broken.client.get("/openapi.json").json()["paths"]
    assert paths["/demo/{action}"]["post"]["x-scope"] == "admin"


@pytest.mark.parametrize(
    ("action", "asked", "records"),
    [
        ("stop-database", ["stop-database", "start-database"], 0),
        ("start-database", ["start-database"], 0),
        ("late", [], LATE_COUNT),
        ("burst", [], BURST_COUNT),
        ("verify", [], 0),
    ],
)
def test_it_recovers_and_is_proved_right(broken: Broken, action: str, asked: list[str], records: int) -> None:
    answered = broken.client.post(f"/demo/{action}")
    assert (answered.status_code, answered.json()["action"]) == (202, action)
    incident = broken.ended()
    assert incident["state"] == "green", incident
    assert incident["verified"] == {"v": "right"}
    assert incident["audited_seconds"] >= incident["verified_seconds"] >= incident["recovered_seconds"] >= 0
    assert broken.supervised.asked == asked
    assert broken.app.log.scan(TOPIC).num_rows == records


def test_a_killed_pipeline_has_recovered_when_it_publishes_something_new(broken: Broken) -> None:
    """The views may be at the position of the kill already: that says nothing of the next process."""
    until(lambda: broken.client.get("/pipelines").json()["pipelines"][0]["position"] is not None)
    broken.client.post("/demo/kill-pipeline")
    until(lambda: broken.incident()["state"] == "recovering")
    time.sleep(5 * incidents_module.POLL_SECONDS)
    assert broken.incident()["state"] == "recovering"
    position = broken.app.log.append(TOPIC, [{"seconds": "1"}])
    incident = broken.ended()
    assert incident["state"] == "green", incident
    assert incident["recovered_seconds"] >= 5 * incidents_module.POLL_SECONDS
    assert f"The views are at position {position}, " in incident["steps"][1]["text"]
    assert broken.supervised.asked == ["kill-pipeline"]


def test_poison_is_set_aside(broken: Broken) -> None:
    broken.client.post("/demo/poison")
    incident = broken.ended()
    assert incident["state"] == "green", incident
    assert "page_views, offset 3, by v" in incident["steps"][1]["text"]
    letters = broken.client.get("/dead-letters").json()
    assert {letter["kind"] for letter in letters["letters"]} == {"rejected", "refused"}


def test_a_view_that_is_wrong_is_red(broken: Broken) -> None:
    broken.wrong.add("v")
    broken.client.post("/demo/verify")
    incident = broken.ended()
    assert (incident["state"], incident["verified"]) == ("red", {"v": "wrong"})


def test_a_supervisor_that_is_gone_is_told(broken: Broken) -> None:
    broken.supervised.is_gone = True
    broken.client.post("/demo/kill-pipeline")
    incident = broken.ended()
    assert incident["state"] == "failed"
    assert "supervisor does not answer" in incident["steps"][-1]["text"]


def test_incidents_come_as_events(broken: Broken) -> None:
    with following(str(broken.client.base_url).rstrip("/"), "/demo") as events:
        assert events.next().data["incidents"] == []
        broken.client.post("/demo/verify")
        until(lambda: bool(events.next().data["incidents"]))


def test_the_console_is_told_of_the_pages(broken: Broken) -> None:
    pages = broken.client.get("/session").json()["pages"]
    assert [page["name"] for page in pages] == ["search", "break-it"]
    assert {broken.client.get(f"/{page['module']}").status_code for page in pages} == {200}


def test_a_report_database_that_does_not_answer_is_told(broken: Broken) -> None:
    refused = broken.client.get("/demo/search?words=tent")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "reports_unavailable")
    broken.client.post("/demo/edit-report")
    incident = broken.ended()
    assert (incident["state"], incident["steps"][-1]["text"]) == ("failed", "The report database does not answer.")


def test_who_may_break_it(broken: Broken) -> None:
    unknown = broken.client.post("/demo/explode")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_action")
    for headers in ({"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}):
        refused = broken.client.post("/demo/verify", headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "foreign_origin")
    assert broken.client.post("/demo/verify", headers={"Host": "rebound.example"}).status_code == 421
    write = Tokens(broken.app.directory).create("write", "write")
    admin = Tokens(broken.app.directory).create("admin", "admin")
    until(lambda: broken.client.get("/demo").status_code == 401)
    # The server may have looked which tokens there are after the first was made, and before the second.
    until(lambda: broken.client.get("/demo", headers={"Authorization": f"Bearer {admin}"}).status_code == 200)
    assert broken.client.post("/demo/verify", headers={"Authorization": f"Bearer {write}"}).status_code == 403
    assert broken.client.post("/demo/verify", headers={"Authorization": f"Bearer {admin}"}).status_code == 202


def test_only_some_at_once(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents_module, "DATABASE_DOWN_SECONDS", 30.0)
    broken.supervised.database = "stopped"
    answers = [broken.client.post("/demo/stop-database").status_code for _ in range(incidents_module.AT_ONCE_MAX + 1)]
    assert answers == [202] * incidents_module.AT_ONCE_MAX + [429]
    broken.supervised.database = "running"
    until(lambda: broken.client.post("/demo/verify").status_code == 202)


@pytest.mark.parametrize("path", list(FILES))
def test_the_page_and_its_parts(broken: Broken, path: str) -> None:
    answered = broken.client.get(path)
    assert answered.status_code == 200
    assert answered.headers["content-type"] == FILES[path][1]
    assert "script-src 'self'" in answered.headers["content-security-policy"]
    assert "http://" not in answered.text
    assert "https://" not in answered.text
