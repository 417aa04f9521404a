"""The rules of the state machine that concern topics: created, evolved, altered, dropped."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from headwater.errors import SchemaError
from headwater.log.topic import Cleanup
from tests.property.log_under_test import DAY, DEFINITIONS, MICROSECOND, NAMES, PICKS, Definition, LogUnderTest, choose
from tests.property.rows import evolutions, refusals


class TopicRules(LogUnderTest):
    """What happens to topics as a whole."""

    @precondition(lambda self: len(self.model.topics) < len(NAMES))
    @rule(definition=DEFINITIONS)
    def create_another(self, definition: Definition) -> None:
        self.create(definition)

    @precondition(lambda self: self.model.topics and self.has_news("drop", 12))
    @rule(pick=PICKS)
    def drop(self, pick: int) -> None:
        self.looked("drop")
        name = choose(self.model.topics, pick)
        self.log.drop(name)
        self.model.drop(name)

    @precondition(lambda self: self.model.topics and self.has_news("topics", 4))
    @rule(pick=PICKS, change=PICKS)
    def evolve(self, pick: int, change: int) -> None:
        self.looked("topics")
        topic = choose(self.model.topics.values(), pick)
        with pytest.raises(SchemaError):
            self.log.alter(topic.name, schema=choose(refusals(topic.schema), change))
        schema = choose(evolutions(topic.schema), change)
        self.log.alter(topic.name, schema=schema)
        topic.schema = schema

    @precondition(lambda self: self.model.topics and self.has_news("topics", 4))
    @rule(pick=PICKS, cleanup=st.sampled_from(["delete", "compact", "none"]))
    def alter_cleanup(self, pick: int, cleanup: Cleanup) -> None:
        self.looked("topics")
        topic = self.topic_of(pick, keyed=True)
        if topic is not None:
            aged, is_archived = cleanup == "delete", self.log.topic(topic.name).settings.archive is not None
            self.log.alter(topic.name, cleanup=cleanup, retention_age=DAY if aged else None)
            # With an archive, retention says what stays here, and nothing is deleted.
            topic.cleanup, topic.retention_age = cleanup, DAY // MICROSECOND if aged and not is_archived else None

    @precondition(lambda self: self.model.topics and self.has_news("topics", 4))
    @rule(pick=PICKS)
    def add_partition(self, pick: int) -> None:
        self.looked("topics")
        topic = self.topic_of(pick, keyed=False)
        if topic is not None and len(topic.partitions) < 4:
            self.log.alter(topic.name, partitions=len(topic.partitions) + 1)
            self.model.add_partition(topic.name)
