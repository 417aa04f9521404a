"""What an answer means for the message, how long it is tried again, and how it is signed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headwater.connectors.webhooks.posting import judged
from headwater.connectors.webhooks.target import Target
from headwater.connectors.webhooks.webhook import Webhook
from headwater.engine.sinks.patience import Patience
from headwater.errors import TargetFailed, UsageError
from headwater.model import signing
from headwater.model.receivers import WebhookIn
from headwater.server.signatures import check

TARGET = "https://example.com"


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_it_was_taken(status: int) -> None:
    assert judged(TARGET, status) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((300, "refused"), (301, "refused"), (304, "refused"), (307, "refused"), (308, "refused")),
        *((400, "refused"), (401, "refused"), (404, "refused"), (413, "refused"), (410, "gone")),
        *((408, "passing"), (425, "passing"), (429, "passing"), (500, "passing"), (503, "passing"), (599, "passing")),
    ],
)
def test_it_was_not(status: int, kind: str) -> None:
    failure = judged(TARGET, status)
    assert failure is not None
    assert failure.kind == kind
    assert f"{TARGET} answers {status}" in failure.reason
    assert ("redirects are not followed" in failure.reason) == (300 <= status < 400)


@pytest.mark.parametrize(("given", "seconds"), [("7", 7.0), (None, None), ("soon", None), ("-1", None), ("²", None)])
def test_a_receiver_may_say_when(given: str | None, seconds: float | None) -> None:
    failure = judged(TARGET, 503, given)
    assert failure is not None
    assert failure.retry_after == seconds


def test_pauses_double_up_to_a_limit_and_are_left_to_chance_in_part() -> None:
    patience = Patience()
    busy = TargetFailed("busy")
    assert [patience.delay(attempts, busy, 1.0) for attempts in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert [patience.delay(attempts, busy, 0.0) for attempts in (1, 2, 3, 4)] == [0.5, 1, 2, 4]
    assert patience.delay(1000, busy, 1.0) == 300
    assert patience.delay(1, TargetFailed("busy", retry_after=20.0), 1.0) == 20
    assert patience.delay(1, TargetFailed("busy", retry_after=1e9), 1.0) == 300


def test_patience_ends() -> None:
    patience = Patience()
    day = timedelta(days=1).total_seconds()
    assert not patience.is_over(10_000, day - 1, TargetFailed("busy"))
    assert patience.is_over(10_000, day, TargetFailed("busy"))
    assert not patience.is_over(patience.refusals_max - 1, day, TargetFailed("no", "refused"))
    assert patience.is_over(patience.refusals_max, 1, TargetFailed("no", "refused"))
    assert patience.is_over(1, 0, TargetFailed("gone", "gone"))


def test_a_receiver_that_knows_any_of_the_secrets_takes_it() -> None:
    now = datetime.now(UTC)
    headers = signing.headers(["old", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "id_1_2", b"{}", now)
    for secret in ("old", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"):
        found = check(WebhookIn("h", "t", "standard", (secret,)), headers, b"{}", now)
        assert found.id == "id_1_2"


def test_secrets_are_checked_and_not_shown() -> None:
    target = Target("https", "example.com", 443, "/hush")
    assert "hush" not in repr(Webhook("n", "v", target, ("hush",)))
    for secrets in ((), ("",), ("a", "")):
        with pytest.raises(UsageError, match="no secret"):
            Webhook("n", "v", target, secrets)
