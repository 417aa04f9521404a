"""Trying whether Spark takes a query at all, over the topics and views of a round, without any rows."""

from __future__ import annotations

from collections.abc import Callable

from headwater.spark.raw import RawSpark
from headwater.spark.session import start_session
from headwater.spark.time_calls import with_moments
from tools.fuzzing.plans import RoundPlan
from tools.fuzzing.running import MASTER


def analyzer(plan: RoundPlan) -> Callable[[str], bool]:
    """A function that tells whether Spark can resolve a query."""
    raw = RawSpark(start_session(MASTER))
    for topic in plan.topics:
        columns = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in topic.columns)
        raw.name(topic.name, raw.session.sql(f"SELECT {columns} WHERE false"))
    for name, sql in plan.views.items():
        raw.name(name, raw.session.sql(with_moments(sql, {})))

    def analyzes(sql: str) -> bool:
        try:
            raw.session.sql(with_moments(sql, {}))
        except Exception:  # noqa: BLE001 (whatever Spark says, it does not take the query)
            return False
        return True

    return analyzes
