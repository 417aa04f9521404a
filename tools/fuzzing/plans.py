"""The plan of a round of fuzzing: topics, views, and what happens to the log while applications come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.fuzzing.changes import IDLE, Commit
from tools.fuzzing.topics import TopicPlan

COMPILED_EVERY = 3
"""Spark compiles what it runs in one round out of this many."""


@dataclass(frozen=True, slots=True)
class Step:
    """Commits, after which the views catch up; before that, the tables that are compacted may be."""

    commits: tuple[Commit, ...] = ()
    compact: bool = False


@dataclass(frozen=True, slots=True)
class Leg:
    """What one application does with the log before it is closed."""

    steps: tuple[Step, ...]
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """All that happens in a round. Each leg is run by an application of its own, on the same directory.

    `reads` has for each view the topics and views that it reads, directly or not. With `policies` (what to do when a
    record makes a view fail, by view) it is a round of expressions that fail. `meant` has parts of the views in other
    words, for raw Spark, which gets them wrong as they are.
    """

    seed: int
    topics: tuple[TopicPlan, ...]
    views: Mapping[str, str]
    reads: Mapping[str, frozenset[str]]
    legs: tuple[Leg, ...]
    policies: Mapping[str, str] = field(default_factory=dict)
    meant: Mapping[str, str] = field(default_factory=dict)

    @property
    def compiled(self) -> bool:
        """Whether Spark compiles what it runs, which takes longer."""
        return self.seed % COMPILED_EVERY == 1

    def needed(self, views: Sequence[str]) -> dict[str, str]:
        """The views of these names and all that they read."""
        wanted = frozenset(views).union(*(self.reads[name] for name in views))
        return {name: sql for name, sql in self.views.items() if name in wanted}

    def without(self, views: Sequence[str]) -> dict[str, str]:
        """The views but these, and those that read them."""
        gone = frozenset(views)
        return {name: sql for name, sql in self.views.items() if name not in gone and not self.reads[name] & gone}


def create_topics(create: Any, topics: Sequence[TopicPlan]) -> None:
    """Creates the topics of a round, by a log's `create` or an application's `topic`."""
    for topic in topics:
        cleanup = "compact" if topic.compacted else "none"
        create(topic.name, topic.ddl, key=topic.key or None, partitions=topic.partitions, cleanup=cleanup)
    create(IDLE, "id bigint")
