"""Targets of sinks: `hw.sinks.Postgres("postgresql://…", table="revenue")`. Drivers are imported when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.connectors.registry import target_class, target_names
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.engine.subscription import Changes

if TYPE_CHECKING:
    from headwater.connectors.postgres.target.target import Postgres
    from headwater.connectors.redis.target import Redis

__all__ = ["Assignment", "Changes", "Delivery", "Postgres", "Redis", "Target"]


def __getattr__(name: str) -> Any:
    """A class of targets."""
    if name not in target_names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return target_class(name)


def __dir__() -> list[str]:
    return __all__
