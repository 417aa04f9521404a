"""Slack, Teams and PagerDuty: what they get is what their interfaces ask for, and values stay values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.connectors.http.channel import HttpChannel
from headwater.connectors.http.pagerduty import DEDUP_KEY_LENGTH_MAX, PagerDuty, dedup_key
from headwater.connectors.http.slack import Slack
from headwater.connectors.http.teams import Teams
from headwater.errors import UsageError
from headwater.model.secrets import Secret
from tests.channels.posts import HUSH, Posts
from tests.channels.sending import telling
from tests.contract.sinks.feeding import Keyed
from tests.webhooks.receiver import status, until

NASTY = 'a "quote" \\ & <!channel> <https://evil.example|click> *bold* [x](y) $text ${key}'


def sent(view: Keyed, posts: Posts, channel: HttpChannel, **rows: str | None) -> list[Any]:
    """What came of a change."""
    with telling(view, channel) as made:
        until(lambda: made.at() == 1)
        view.publish(**rows)
        until(lambda: made.at() == 2 and made.status().lag == 0)
    return posts.once()


def test_slack_gets_a_text_in_which_values_mention_nobody(view: Keyed, posts: Posts) -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": "*$text* of $key"}},
        {"value": "$key"},
    ]
    channel = Slack(posts.url, "<!here> $text", blocks=blocks, allow_private=True)
    (body,) = sent(view, posts, channel, k3=NASTY)
    escaped = NASTY.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert body["text"] == f"<!here> {escaped}"
    assert body["blocks"] == [
        {"type": "section", "text": {"type": "mrkdwn", "text": f"*{escaped}* of 3"}}, {"value": 3},
    ]  # fmt: skip


def test_slack_gets_no_message_for_rows_that_are_gone(view: Keyed, posts: Posts) -> None:
    assert sent(view, posts, Slack(posts.url, "$text", allow_private=True), k1=None, k3="5") == [{"text": "5"}]


def test_teams_gets_an_adaptive_card_of_plain_text(view: Keyed, posts: Posts) -> None:
    (body,) = sent(view, posts, Teams(posts.url, "$key\n$text", title="New: $text", allow_private=True), k3=NASTY)
    assert body["type"] == "message"
    (attachment,) = body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert [block["inlines"][0]["text"] for block in card["body"]] == [f"New: {NASTY}", "3", NASTY]


def test_pagerduty_triggers_one_incident_per_row_and_resolves_it(view: Keyed, posts: Posts) -> None:
    key = "r0ut1ng" + HUSH
    channel = PagerDuty(key, "Order $key: $text", severity="critical", url=posts.url, allow_private=True)
    with telling(view, channel) as made:
        until(lambda: made.at() == 1)
        view.publish(k3="late")
        view.publish(k3="later")
        view.publish(k3=None)
        until(lambda: made.at() == 4)
        assert HUSH not in json.dumps([path.read_text() for path in view.directory.glob("sinks/*.json")])
    triggered, again, resolved = posts.once()
    assert triggered.pop("payload") == {
        "summary": "Order 3: late", "source": "headwater", "severity": "critical", "component": "v",
        "timestamp": triggered_at(posts), "custom_details": {"key": 3, "text": "late"},
    }  # fmt: skip
    assert triggered == {
        "routing_key": key, "event_action": "trigger", "dedup_key": "headwater:tell:3", "client": "headwater",
    }  # fmt: skip
    assert (again["event_action"], again["dedup_key"]) == ("trigger", "headwater:tell:3")
    assert resolved == {"routing_key": key, "event_action": "resolve", "dedup_key": "headwater:tell:3"}


def triggered_at(posts: Posts) -> str:
    at: str = posts.once()[0]["payload"]["timestamp"]
    assert at.startswith("20")
    assert at.endswith("Z")
    return at


def test_the_routing_key_is_not_written_down_while_a_message_is_under_way(view: Keyed, posts: Posts) -> None:
    posts.answers += [status(503)] * 1000
    channel = PagerDuty(f"key-{HUSH}", url=posts.url, allow_private=True)
    with telling(view, channel, "content") as made:
        until(lambda: made.status().failures > 2)
        held = (view.directory / "sinks" / "tell.json").read_text()
        posts.answers.clear()
        until(lambda: made.at() == 1)
    assert "under_way" in held
    assert '\\"text\\": \\"one\\"' in held
    assert HUSH not in held


def test_a_long_key_of_an_incident_is_shortened_and_stays_distinct() -> None:
    keys = {dedup_key("orders", "x" * 300 + end) for end in "ab"}
    assert len(keys) == 2
    assert max(map(len, keys)) <= DEDUP_KEY_LENGTH_MAX


def test_settings_of_pagerduty_are_checked() -> None:
    with pytest.raises(UsageError, match="Invalid severity='fatal'"):
        PagerDuty("k", severity="fatal")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs a routing key"):
        PagerDuty("")
    with pytest.raises(UsageError, match="no secret in the environment variable NO_SUCH_KEY"):
        PagerDuty(Secret.env("NO_SUCH_KEY")).open()
