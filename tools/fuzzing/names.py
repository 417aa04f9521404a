"""Names that differ in case only: SQL cannot tell them apart, so there must not be two of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headwater.app import App
from headwater.errors import UsageError
from tools.fuzzing.findings import Finding
from tools.fuzzing.plans import create_topics
from tools.fuzzing.running import MASTER
from tools.fuzzing.topics import TopicPlan


def twins(topics: tuple[TopicPlan, ...], folder: Path) -> list[Finding]:
    """Findings for each pair of a view and a topic, or of two views, that is accepted. `folder` takes a log."""
    topic = topics[0].name
    other = topic.swapcase()
    pairs = (
        {other: f"SELECT id FROM {topic}"},
        {other: f"SELECT id FROM {topic}", "reader": f"SELECT count(*) AS c0 FROM {topic}"},
        {"up": f"SELECT id FROM {topic}", "Up": f"SELECT 1 AS c0 FROM {topic}"},
    )
    return [
        Finding(next(iter(views)), str(views), 0, error="accepted beside a name that differs in case", cause="accepted")
        for number, views in enumerate(pairs)
        if _accepted(views, topics, folder / str(number))
    ]


def _accepted(views: Mapping[str, str], topics: tuple[TopicPlan, ...], folder: Path) -> bool:
    with App("names", log=folder, master=MASTER) as app:
        create_topics(app.topic, topics)
        try:
            for name, sql in views.items():
                app.view(name, sql)
            app.plan()
        except UsageError:
            return False
    return True
