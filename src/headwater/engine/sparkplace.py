"""Where an application's Spark runs: a master for a session of ours, or a session that the caller has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import UsageError


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """`session` is a SparkSession, whose settings stay as they are; `conf` are settings for a session of ours."""

    master: str = "local[*]"
    session: Any = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.session is not None and self.conf:
            raise UsageError(
                "spark_conf is for a Spark that headwater starts; this application was given a session.",
                hint="Set it where the session is built.",
            )
