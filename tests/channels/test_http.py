"""Messages over HTTP: one for each row that was added, changed or removed, at least once, with a stable id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.connectors.http.channel import Http, HttpSender
from headwater.connectors.webhooks.posting import Poster
from headwater.connectors.webhooks.target import parse_target
from headwater.engine.sinks.channel import Message, Notice
from headwater.errors import HeadwaterError, TargetFailed, UsageError
from tests.channels.posts import HUSH, Posts, cut, taking_posts
from tests.channels.sending import BODY, telling
from tests.contract.sinks.feeding import Keyed
from tests.webhooks.receiver import slowly, status, until


def http(posts: Posts, body: Any = BODY, **options: Any) -> Http:
    return Http(posts.url, body, allow_private=True, **options)


def told(posts: Posts) -> list[tuple[str, int, str]]:
    return [(one["event"], one["key"], one["text"]) for one in posts.once()]


def test_rows_that_are_added_changed_and_removed_are_one_message_each(view: Keyed, posts: Posts) -> None:
    with telling(view, http(posts)) as made:
        until(lambda: made.at() == 1)
        view.publish(k3="three", k1="ONE", k2=None)
        until(lambda: made.at() == 2 and made.status().lag == 0)
    assert sorted(told(posts)) == [("added", 3, "three"), ("changed", 1, "ONE"), ("removed", 2, "two")]
    assert [one["id"] for one in posts.once()] == [post.id for post in posts.taken]
    assert posts.taken[0].headers["content-type"] == "application/json"
    assert made.status().deliveries >= 3


def test_it_starts_with_the_content_if_it_is_to(view: Keyed, posts: Posts) -> None:
    with telling(view, http(posts), "content") as made:
        until(lambda: made.at() == 1)
    assert sorted(told(posts)) == [("added", 1, "one"), ("added", 2, "two")]


def test_without_a_key_a_changed_row_is_one_that_goes_and_one_that_comes(view: Keyed, posts: Posts) -> None:
    with telling(view, http(posts), key=()) as made:
        until(lambda: made.at() == 1)
        view.publish(k1="ONE")
        until(lambda: made.at() == 2)
    assert sorted(told(posts)) == [("added", 1, "ONE"), ("removed", 1, "one")]


def test_only_the_events_that_are_wanted_are_sent(view: Keyed, posts: Posts) -> None:
    with telling(view, http(posts, on="removed")) as made:
        until(lambda: made.at() == 1)
        view.publish(k3="three", k1="ONE")
        view.publish(k3=None)
        until(lambda: made.at() == 3)
    assert told(posts) == [("removed", 3, "three")]


def test_without_a_template_the_message_has_everything(view: Keyed, posts: Posts) -> None:
    with telling(view, http(posts, None)) as made:
        until(lambda: made.at() == 1)
        view.publish(k3='say "$_id"')
        until(lambda: made.at() == 2)
    (body,) = posts.once()
    assert body.pop("timestamp").endswith("Z")
    assert body == {
        "id": posts.taken[0].id, "name": "tell", "view": "v", "event": "added", "key": "3", "position": "2",
        "row": {"key": 3, "text": 'say "$_id"'},
    }  # fmt: skip


@pytest.mark.parametrize("answer", [status(500), status(503, Retry_After="0"), status(429, Retry_After="0"), cut])
def test_a_failure_that_passes_is_tried_again_with_the_same_id(view: Keyed, posts: Posts, answer: Any) -> None:
    posts.answers += [answer] * 4
    with telling(view, http(posts), "content") as made:
        until(lambda: made.at() == 1)
        assert made.status().failures == 4
    assert len({post.id for post in posts.came[:5]}) == 1
    assert len(posts.once()) == 2


def test_a_receiver_that_never_answers_is_given_up_and_tried_again(view: Keyed, posts: Posts) -> None:
    posts.answers += [slowly(30, 60)]
    sender = HttpSender(Poster(parse_target(posts.url, allow_private=True), 0.2), {}, lambda _: "{}")
    message = Message("shop~tell_1_1", (Notice("tell", "v", "added", "1", {}, "1", "2026-01-01T00:00:00Z"),))
    with pytest.raises(TargetFailed, match="takes too long"):
        sender.send(message)
    sender.send(message)
    assert [post.id for post in posts.came] == ["shop~tell_1_1"] * 2


def test_it_ends_at_once_while_a_receiver_is_slow(view: Keyed, posts: Posts) -> None:
    posts.answers.append(slowly(25, 50))
    with telling(view, http(posts), "content"):
        until(lambda: posts.came)
    assert not posts.taken


def test_a_message_that_is_refused_becomes_a_dead_letter_and_the_others_go_out(view: Keyed, posts: Posts) -> None:
    posts.answers.append(status(400))
    with telling(view, http(posts), "content") as made:
        until(lambda: made.at() == 1)
    (letter,) = [dict(record.value or {}) for record in view.log.read("tell.dead_letters")]
    assert letter["topic"] == "v"
    assert "400 Bad Request" in str(letter["reason"])
    assert letter["original"] == b'{"key": 1, "text": "one"}'
    assert told(posts) == [("added", 2, "two")]


def test_what_is_wrong_for_every_message_pauses_it(view: Keyed, posts: Posts) -> None:
    with telling(view, http(posts)) as made:
        until(lambda: made.at() == 1)
        posts.answers += [status(202), *[status(403)] * 10]
        view.publish(k3="three", k4="four")
        until(lambda: made.status().status == "paused")
        assert made.status().status == "paused"
        assert "403 Forbidden" in str(made.status().error)
    posts.answers.clear()
    with telling(view, http(posts)) as made:
        until(lambda: made.at() == 2)
    assert told(posts) == [("added", 4, "four")], "it continues in the middle of the change"
    assert len({post.id for post in posts.came}) == 2


def test_a_template_with_a_column_that_is_not_there_says_so(view: Keyed, posts: Posts) -> None:
    with telling(view, http(posts, {"what": "$price"}), "content") as made:
        until(lambda: made.status().status == "paused")
        assert "A template has $price, but a message only $key, $text" in str(made.status().error)
    assert not posts.came


def test_a_key_that_the_view_does_not_have_says_so(view: Keyed, posts: Posts) -> None:
    with telling(view, http(posts), "content", key=("id",)) as made:
        until(lambda: made.status().status == "paused")
        assert "View 'v' has no column 'id', which is in the key" in str(made.status().error)


def test_two_rows_of_one_key_are_told_to_nobody(view: Keyed, posts: Posts) -> None:
    with telling(view, http(posts)) as made:
        until(lambda: made.at() == 1)
        view.add(1, "another")
        until(lambda: made.status().status == "paused")
        assert "more than one row with the key key=1" in str(made.status().error)
    assert not posts.came


def test_a_receiver_that_comes_back_gets_everything(view: Keyed) -> None:
    with taking_posts() as posts:
        port = posts.port
    with telling(view, http(posts), "content") as made:
        until(lambda: made.status().status == "retrying")
        view.publish(k3="three")
        with taking_posts(port) as back:
            until(lambda: made.at() == 2)
            assert sorted(told(back)) == [("added", 1, "one"), ("added", 2, "two"), ("added", 3, "three")]


def test_only_public_addresses_are_sent_to() -> None:
    with pytest.raises(UsageError, match="HTTPS only"):
        Http("http://localhost/x")
    sender = Http("https://localhost:1/x").open()
    notice = Notice("n", "v", "added", "", {}, "1", "2026-01-01T00:00:00Z")
    with pytest.raises(TargetFailed, match="not a public address") as raised:
        sender.send(Message("i", (notice,)))
    assert raised.value.kind == "refused"


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/x-www-form-urlencoded", "Body=$text&To=%2B43", b"Body=a%26b%3D%3C%22%3E+%E2%82%AC&To=%2B43"),
        ("text/plain; charset=utf-8", "$text!", 'a&b=<"> €!'.encode()),
        ("text/html", "<b>$text</b>", "<b>a&amp;b=&lt;&quot;&gt; €</b>".encode()),
    ],
)
def test_values_are_escaped_as_the_type_needs_it(
    view: Keyed, posts: Posts, content_type: str, body: str, expected: bytes
) -> None:
    with telling(view, http(posts, body, content_type=content_type)) as made:
        until(lambda: made.at() == 1)
        view.publish(k3='a&b=<"> €')
        until(lambda: posts.taken)
    assert posts.taken[0].body == expected
    assert posts.taken[0].headers["content-type"] == content_type


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"body": "{"}, "is not JSON"),
        ({"body": "<$x>", "content_type": "text/html", "on": "fired"}, "Invalid on='fired'"),
        ({"body": "{}", "on": []}, "no event"),
        ({"body": {"a": "$"}}, "does not begin a placeholder"),
        ({"body": {"a": 1}, "content_type": "text/plain"}, "must be text"),
        ({"body": "{}", "headers": {"Authorization": f"{HUSH}\r\nx: y"}}, "headers cannot have"),
        ({"body": "{}", "headers": {"Host": HUSH}}, "is set by the sender"),
    ],
)
def test_wrong_settings_are_told_at_once_and_show_no_secret(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("$", r"\$")) as raised:
        Http(f"https://example.com/{HUSH}", **wrong)
    assert HUSH not in f"{raised.value} {raised.value.hint}"


def test_secrets_come_from_the_environment_or_a_file(
    view: Keyed, posts: Posts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(f"Bearer {HUSH}\n")
    channel = Http(
        hw.sinks.Secret.env("HOOK_URL"), BODY, allow_private=True,
        headers={"Authorization": hw.sinks.Secret.file(tmp_path / "token")},
    )  # fmt: skip
    assert channel.address == "Secret(environment variable HOOK_URL)"
    with pytest.raises(UsageError, match="no secret in the environment variable HOOK_URL"):
        channel.open()
    monkeypatch.setenv("HOOK_URL", posts.url)
    assert channel.address == f"http://localhost:{posts.port}"
    with telling(view, channel, "content") as made:
        until(lambda: made.at() == 1)
    assert posts.taken[0].headers["authorization"] == f"Bearer {HUSH}"
    held = "".join(path.read_text(errors="replace") for path in view.directory.rglob("*.json"))
    assert "delivered_at" in held
    assert HUSH not in held


def test_an_application_declares_it_as_a_sink(tmp_path: Path) -> None:
    with hw.App("shop", log=tmp_path / "log") as app:
        app.sink("tell", view="v", to=Http("https://example.com/x", BODY))
        assert repr(app.sinks["tell"]) == "Feed('tell', view='v', to='https://example.com')"
        with pytest.raises(HeadwaterError, match="needs a key: pagerduty"):
            app.sink("page", view="v", to=hw.sinks.PagerDuty("0123"))
