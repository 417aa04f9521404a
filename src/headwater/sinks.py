"""Targets of sinks: `hw.sinks.Postgres("postgresql://…", table="revenue")`. Drivers are imported when asked for."""

from __future__ import annotations

from typing import Any

from headwater.connectors.registry import target_class, target_names
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.engine.subscription import Changes

__all__ = ["Assignment", "Changes", "Delivery", "Target"]


def __getattr__(name: str) -> Any:
    """A class of targets."""
    if name not in target_names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return target_class(name)


def __dir__() -> list[str]:
    return __all__
