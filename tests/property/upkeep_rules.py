"""The rules of the state machine that concern time: sealing, retention and compaction."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.maintenance import Segment
from tests.property.log_under_test import PICKS, LogUnderTest, choose
from tests.property.model import TopicModel

Segments = dict[str, list[Segment]]


class UpkeepRules(LogUnderTest):
    """What is removed when. Where segments begin and end is asked of the log; what follows from it is not."""

    @precondition(lambda self: self.has_news("time"))
    @rule(hours=st.sampled_from([0, 1, 20, 24, 30]), back=st.integers(0, 3))
    def time_passes(self, hours: int, back: int) -> None:
        self.looked("time")
        self.clock.advance(timedelta(hours=hours))
        if back == 0:
            self.clock.set_back(timedelta(hours=3))

    @precondition(lambda self: self.model.topics and self.has_news("seal"))
    @rule(pick=PICKS)
    def seal(self, pick: int) -> None:
        self.looked("seal")
        self.log.seal(choose(self.model.topics, pick))

    @precondition(lambda self: self.compacted_topics() and self.has_news("compact"))
    @rule(pick=PICKS)
    def compact(self, pick: int) -> None:
        self.looked("compact")
        topic, log = choose(self.compacted_topics(), pick), self.log
        segments = self.segments(log)
        removed = log.compact(topic.name)
        count = sum(len(partition.removed) for partition in topic.partitions)
        self.note_compaction(log, topic, segments, whole=True)
        assert sum(len(partition.removed) for partition in topic.partitions) == count + removed

    def compacted_topics(self) -> list[TopicModel]:
        return [topic for topic in self.model.topics.values() if topic.cleanup == "compact"]

    @precondition(lambda self: self.has_news("upkeep"))
    @rule()
    def upkeep(self) -> None:
        self.looked("upkeep")
        log = self.log
        segments = self.segments(log)
        log.upkeep()
        self.note_upkeep(log, segments, whole=True)

    def segments(self, log: EmbeddedLog) -> Segments:
        return {name: log.segments(name) for name in self.model.topics}

    def note_upkeep(self, log: EmbeddedLog, segments: Segments, *, whole: bool) -> None:
        """Takes over what a round removed, after checking that it might; `whole` if the round was not cut short."""
        for topic in self.model.topics.values():
            if topic.cleanup == "delete":
                self.note_retention(log, topic, segments, whole=whole)
            if topic.cleanup == "compact":
                # What an archive is to take over is sealed first, and then compacted in the same round.
                is_archived = log.topic(topic.name).settings.archive is not None
                self.note_compaction(log, topic, self.segments(log) if is_archived else segments, whole=False)

    def note_retention(self, log: EmbeddedLog, topic: TopicModel, segments: Segments, *, whole: bool) -> None:
        if topic.retention_age is None:
            return
        before = self.clock.now() - topic.retention_age
        left = [(segment.partition, segment.base_offset) for segment in log.segments(topic.name)]
        happened = whole or left != [(segment.partition, segment.base_offset) for segment in segments[topic.name]]
        for segment in segments[topic.name]:
            partition = topic.partitions[segment.partition]
            if happened and partition.history[segment.end_offset - 1].at < before:
                partition.start = segment.end_offset

    def note_compaction(self, log: EmbeddedLog, topic: TopicModel, segments: Segments, *, whole: bool) -> None:
        kept = {(record.partition, record.offset) for record in log.read(topic.name)}
        for number, partition in enumerate(topic.partitions):
            complete = [s for s in segments[topic.name] if s.partition == number and s.state != "active"]
            sealed_end = max((segment.end_offset for segment in complete), default=0)
            due = topic.outdated(number, sealed_end, self.clock.now())
            removed = {entry.offset for entry in partition.kept() if (number, entry.offset) not in kept}
            assert removed <= due, f"compaction removed {removed - due} of partition {number}"
            assert not whole or removed == due, f"compaction left {due - removed} in partition {number}"
            topic.remove(number, removed, sealed_end)
