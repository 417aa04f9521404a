"""Webhooks of an application: declared, sent, and shown in the flow and in the metrics, never with a secret."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.engine.parts import Report
from headwater.engine.running import Runner
from headwater.errors import UnknownView, UsageError
from headwater.runner import feeds_of
from tests.server.shop import Shop
from tests.webhooks.receiver import SECRET, receiving, status, until

EVERYWHERE = ("/flow", "/metrics", "/history", "/views", "/hooks", "/pipelines", "/readyz")


class Noting(Report):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.said.append(text)


def sink(shop: Shop) -> tuple[dict[str, Any], dict[str, Any]]:
    """The node of the webhook in the flow, and the edge that leads to it."""
    flow = shop.client.get("/flow").json()
    (node,) = [one for one in flow["nodes"] if one["id"] == "sink:mail"]
    (edge,) = [one for one in flow["edges"] if one["to"] == "sink:mail"]
    return node, edge


def test_it_is_shown_as_a_sink_with_its_lag_and_its_last_error(shop: Shop) -> None:
    with receiving() as receiver:
        target = receiver.url.partition("/hook")[0]
        shop.app.webhook_out("mail", view="v", url=receiver.url, secret=SECRET, start="content", allow_private=True)
        node, edge = sink(shop)
        assert (edge["from"], edge["lag"]) == ("view:v", None)
        assert (node["status"], node["target"], node["deliveries"]) == ("running", target, 0)
        report = Noting()
        with Runner(feeds_of(shop.app), report) as running:
            until(lambda: sink(shop)[0]["deliveries"] == 1)
            assert sink(shop)[1]["lag"] == 0
            receiver.answers.append(status(410))
            shop.publish((3, "three", 1), position=1)
            until(lambda: sink(shop)[0]["status"] == "paused")
            shop.publish((4, "four", 1), position=2)
            running.check()
        node, edge = sink(shop)
        assert (node["lag"], edge["lag"], node["failures"], node["position"]) == (2, 2, 1, "0")
        assert node["error"] == f"{target} answers 410 Gone"
        assert node["failed_at"] > node["delivered_at"][:10]
        lines = shop.client.get("/metrics").text.splitlines()
        labels = '{sink="mail",view="v",kind="webhook"}'
        assert f"headwater_sink_deliveries_total{labels} 1" in lines
        assert f"headwater_sink_failures_total{labels} 1" in lines
        assert f"headwater_sink_lag_rows{labels} 2" in lines
        assert f"headwater_sink_paused{labels} 1" in lines
        shown = [shop.client.get(path).text for path in EVERYWHERE]
        for secret in (SECRET, "hush"):
            assert secret not in str([*shown, *report.said, shop.app.sinks])
        assert receiver.rows() == {"one": 1, "two": 1}


def test_a_webhook_that_is_declared_wrongly_is_refused(shop: Shop) -> None:
    shop.app.webhook_out("mail", view="v", url="https://example.com/hush", secret=["new", "old"])
    with pytest.raises(UsageError, match="already a sink named 'mail'"):
        shop.app.webhook_out("mail", view="v", url="https://example.com/", secret="s")
    with pytest.raises(UsageError, match="not a valid sink name"):
        shop.app.webhook_out("../mail", view="v", url="https://example.com/", secret="s")
    with pytest.raises(UsageError, match="HTTPS only"):
        shop.app.webhook_out("plain", view="v", url="http://example.com/", secret="s")
    assert list(shop.app.sinks) == ["mail"]
    assert len(feeds_of(shop.app)) == 1
    with pytest.raises(UsageError, match="'later'"):
        shop.app.webhook_out("late", view="v", url="https://example.com/", secret="s", start="later")  # type: ignore[arg-type]
    shop.app.webhook_out("lost", view="nowhere", url="https://example.com/", secret="s")
    with pytest.raises(UnknownView):
        feeds_of(shop.app)
