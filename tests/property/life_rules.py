"""The rules of the state machine that end processes: in order, by a crash, and by one in the middle of something."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of
from tests.property.log_under_test import PICKS, choose
from tests.property.rows import evolutions
from tests.property.upkeep_rules import UpkeepRules


class LifeRules(UpkeepRules):
    """Closing, dying, and opening again."""

    @precondition(lambda self: self.has_news("life", 3))
    @rule(leave=st.booleans())
    def reopen(self, leave: bool) -> None:
        self.looked("life")
        if leave:
            for group, name in list(self.consumers):
                self.consumers.pop((group, name))[0].close()
                self.model.groups[group].release({name})
        self.close()
        self.bury()
        self.open()

    @precondition(lambda self: self.has_news("life", 3))
    @rule(reboot=st.booleans())
    def die(self, reboot: bool) -> None:
        self.looked("life")
        if reboot:
            self.clock.reboot()
        self.crash()
        if reboot:
            for group, names in self.dead.items():
                self.model.groups[group].ended |= names

    @precondition(lambda self: self.model.topics)
    @rule(operations=st.integers(0, 12), after=st.booleans(), data=st.data(), value=st.integers(0, 9))
    def die_while_committing(self, operations: int, after: bool, data: st.DataObject, value: int) -> None:
        fill, additions = self.draw_commit(data)

        def action(log: EmbeddedLog) -> None:
            with log.commit() as commit:
                fill(commit)
                commit.bookmark("left", value)

        survived = self.survives(operations, after, action)
        # The other process sees whether it happened: wholly or not at all, and for good.
        if commit_of(self.handles[1].position()) > self.model.commit:
            self.model.append(self.clock.now(), additions, {"left": value})
        else:
            assert not survived
        if not survived:
            self.crash()

    @precondition(lambda self: self.model.topics and self.has_news("life", 3))
    @rule(
        operations=st.integers(0, 25), after=st.booleans(), pick=PICKS,
        action=st.sampled_from(["seal", "compact", "upkeep", "evolve"]),
    )  # fmt: skip
    def die_while_tending(self, operations: int, after: bool, pick: int, action: str) -> None:
        self.looked("life")
        topic = choose(self.model.topics.values(), pick)
        if action == "compact" and topic.cleanup != "compact":
            action = "upkeep"
        schema = choose(evolutions(topic.schema), pick)
        segments = self.segments(self.handles[1])
        actions: dict[str, Callable[[EmbeddedLog], object]] = {
            "seal": lambda log: log.seal(topic.name),
            "compact": lambda log: log.compact(topic.name),
            "upkeep": lambda log: log.upkeep(),
            "evolve": lambda log: log.alter(topic.name, schema=schema),
        }
        survived = self.survives(operations, after, actions[action])
        if action == "evolve" and self.handles[1].topic(topic.name).schema.equals(schema):
            topic.schema = schema
        if not survived:
            self.crash()
        if action == "compact":
            self.note_compaction(self.handles[1], topic, segments, whole=survived)
        if action == "upkeep":
            self.note_upkeep(self.handles[1], segments, whole=survived)
