"""Webhooks prove who sent them, by three conventions; a wrong, old or changed one is refused."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from headwater.errors import Refused
from headwater.model.receivers import WebhookIn, WebhookStyle
from headwater.server.signatures import Delivery, check, sign

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
STYLES: tuple[WebhookStyle, ...] = ("standard", "github", "stripe")
BODY = b'{"id": "evt_1", "type": "paid"}'


def hook(style: WebhookStyle, *secrets: str) -> WebhookIn:
    return WebhookIn("h", "t", style, secrets or ("whsec_" + base64.b64encode(b"0" * 24).decode(),)).check()


@pytest.mark.parametrize("style", STYLES)
def test_what_is_signed_is_taken(style: WebhookStyle) -> None:
    signed = sign(hook(style), "evt_1", BODY, NOW)
    found = check(hook(style), signed, BODY, NOW)
    assert found.id == "evt_1"
    assert found.sent_at == (None if style == "github" else NOW)


def test_the_example_of_the_standard_is_taken() -> None:
    """From the specification of Standard Webhooks."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    at = datetime.fromtimestamp(1614265330, UTC)
    found = check(hook("standard", secret), headers, b'{"test": 2432232314}', at)
    assert found == Delivery("msg_p5jXN8AQM9LWM0D4loKWxJek", None, at)


def test_the_example_of_github_is_taken() -> None:
    """From GitHub's documentation of webhooks."""
    headers = {
        "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "x-github-delivery": "1",
        "x-github-event": "push",
    }
    found = check(hook("github", "It's a Secret to Everybody"), headers, b"Hello, World!", NOW)
    assert found == Delivery("1", "push", None)


@pytest.mark.parametrize("style", STYLES)
def test_another_body_or_secret_is_refused(style: WebhookStyle) -> None:
    signed = sign(hook(style), "evt_1", BODY, NOW)
    for given, body in ((hook(style), BODY + b" "), (hook(style, "another"), BODY)):
        with pytest.raises(Refused) as refused:
            check(given, signed, body, NOW)
        assert (refused.value.status, refused.value.code) == (401, "bad_signature")


@pytest.mark.parametrize("style", ["standard", "stripe"])
@pytest.mark.parametrize("away", [timedelta(minutes=6), timedelta(minutes=-6)])
def test_an_old_signature_is_refused(style: WebhookStyle, away: timedelta) -> None:
    signed = sign(hook(style), "evt_1", BODY, NOW)
    check(hook(style), signed, BODY, NOW + away * 0.5)
    with pytest.raises(Refused, match="too old"):
        check(hook(style), signed, BODY, NOW + away)


@pytest.mark.parametrize("style", STYLES)
def test_one_of_several_secrets_is_enough(style: WebhookStyle) -> None:
    signed = sign(hook(style, "old"), "evt_1", BODY, NOW)
    assert check(hook(style, "new", "old"), signed, BODY, NOW).id == "evt_1"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("change", [lambda _: None, lambda _: "", lambda text: text[:-3], lambda _: "t=9,v1=,v1,"])
def test_a_damaged_header_is_refused(style: WebhookStyle, change: Callable[[str], str | None]) -> None:
    signed = sign(hook(style), "evt_1", BODY, NOW)
    for name in signed:
        changed = change(signed[name])
        broken = {**signed, name: changed} if changed is not None else {n: v for n, v in signed.items() if n != name}
        if name == "x-github-delivery" and changed:
            continue  # GitHub does not sign the id
        with pytest.raises(Refused):
            check(hook(style), broken, BODY, NOW)


def test_a_secret_is_not_shown() -> None:
    assert "hush" not in repr(hook("github", "hush"))
