"""Followers to look at: a pipeline with a base, and one that no longer exists and has missed records."""

from __future__ import annotations

from headwater.log.followers import FollowerKind
from headwater.model.position import START
from tests.console.stage import Stage

LOST = "trial/3"
"""The follower that no longer exists."""


def follow(stage: Stage) -> None:
    """Registers them."""
    log = stage.app.log
    log.create("readings", "id bigint", retention_bytes=1, hold_bytes_max=0, views="keep")
    log.followers.hold(LOST, "pipeline", START, ["readings"])
    log.append("readings", [{"id": 1}])
    log.maintenance.seal("readings")
    log.append("readings", [{"id": 2}])
    log.maintenance.upkeep()
    kinds: dict[str, FollowerKind] = {"shop/1": "pipeline", "shop/1/base": "base"}
    for name, kind in kinds.items():
        log.followers.hold(name, kind, log.position(), ["shop.orders", "shop.customers", "page_views"])
