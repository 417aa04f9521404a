"""The rules of the state machine that write: appends, deletes, commits on condition, and sends that are repeated."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from headwater.errors import Fenced, InvalidRecords, OutOfSequence
from headwater.log.embedded.position import commit_of
from tests.property.log_under_test import PICKS, LogUnderTest, choose
from tests.property.model import Addition, ProducerModel
from tests.property.rows import keys, rows, to_arrow

HEADERS = st.none() | st.dictionaries(st.sampled_from(["who", "why"]), st.sampled_from(["", "me"]))


class WritingRules(LogUnderTest):
    """Every way to add to the log."""

    @precondition(lambda self: self.model.topics)
    @rule(pick=PICKS, data=st.data(), arrow=st.booleans(), times=st.integers(1, 4))
    def append(self, pick: int, data: st.DataObject, arrow: bool, times: int) -> None:
        topic = choose(self.model.topics.values(), pick)
        for _ in range(times):
            given = data.draw(st.lists(rows(topic), max_size=4))
            committed = self.log.append(topic.name, to_arrow(topic, given) if arrow and given else given)
            self.model.append(self.clock.now(), self.additions(topic, given))
            assert commit_of(committed) == self.model.commit

    @precondition(lambda self: self.model.topics)
    @rule(pick=PICKS)
    def append_anywhere(self, pick: int) -> None:
        topic = self.topic_of(pick, keyed=False)
        if topic is not None:
            with self.log.commit() as commit:
                commit.append(topic.name, [{"id": 1}, {"id": 2}])
            [(_, partition)] = commit.result.offsets
            additions = [Addition(topic.name, partition, {"id": number}) for number in (1, 2)]
            self.model.append(self.clock.now(), additions)

    @precondition(lambda self: self.model.topics and self.has_news("rejected"))
    @rule(pick=PICKS, data=st.data())
    def append_what_does_not_fit(self, pick: int, data: st.DataObject) -> None:
        self.looked("rejected")
        topic = choose(self.model.topics.values(), pick)
        given = [*data.draw(st.lists(rows(topic), max_size=2)), {"surprise": 1}]
        with pytest.raises(InvalidRecords) as error:
            self.log.append(topic.name, given)
        assert [rejected.index for rejected in error.value.rejected] == [len(given) - 1]

    @precondition(lambda self: self.model.topics)
    @rule(pick=PICKS, data=st.data())
    def delete(self, pick: int, data: st.DataObject) -> None:
        topic = self.topic_of(pick, keyed=True)
        if topic is not None:
            given = data.draw(st.lists(keys(topic), min_size=1, max_size=3))
            self.log.delete(topic.name, given)
            self.model.append(self.clock.now(), self.additions(topic, given, deleted=True))

    @precondition(lambda self: self.model.topics)
    @rule(data=st.data(), headers=HEADERS, value=st.integers(0, 9), right=st.booleans())
    def commit(self, data: st.DataObject, headers: dict[str, str] | None, value: int, right: bool) -> None:
        """Records of several topics and two bookmarks, one of them on condition that may not hold."""
        fill, additions = self.draw_commit(data, headers)
        actual = self.model.bookmarks.get("right")
        expected: object = actual if right else [actual]
        with self.log.commit(headers=headers, on_conflict="return") as commit:
            fill(commit)
            commit.bookmark("left", value)
            commit.bookmark("right", {"value": value}, expect=expected)
        if right:
            self.model.append(self.clock.now(), additions, {"left": value, "right": {"value": value}})
            assert commit_of(commit.position) == self.model.commit
        else:
            conflict = commit.conflict
            assert conflict is not None
            assert (conflict.bookmark, conflict.expected, conflict.actual) == ("right", expected, actual)

    def take_producer(self, name: str) -> None:
        model = self.model.producers.setdefault(name, ProducerModel())
        model.epoch += 1
        producer = self.log.producer(name=name)
        assert (producer.epoch, producer.next_sequence()) == (model.epoch, model.sequence + 1)
        self.producers.setdefault(name, []).append(producer)

    @precondition(lambda self: self.model.topics)
    @rule(
        name=st.sampled_from(["import", "copy"]), taken=st.sampled_from([False, False, True]), pick=PICKS,
        ahead=st.sampled_from([1, 1, 1, 0, -1, 2]), data=st.data(),
    )  # fmt: skip
    def send(self, name: str, taken: bool, pick: int, ahead: int, data: st.DataObject) -> None:
        """The next number, an earlier one or a later one, by the holder of a name or by one that was replaced."""
        if taken or name not in self.producers:
            self.take_producer(name)
        producer = self.producers[name][-1] if pick % 3 else choose(self.producers[name], pick)
        model = self.model.producers[name]
        number = max(1, model.sequence + ahead)
        fill, additions = self.draw_commit(data)
        commit = self.log.commit(producer=producer, sequence=number)
        if producer.epoch != model.epoch or number > model.sequence + 1:
            with pytest.raises(Fenced if producer.epoch != model.epoch else OutOfSequence), commit:
                fill(commit)
            return
        with commit:
            fill(commit)
        assert commit.result.duplicate == (number <= model.sequence)
        if number > model.sequence:
            self.model.begin(self.clock.now())
            self.model.add(additions)
            model.sequence, model.commit = number, self.model.commit
        assert commit_of(commit.position) == model.commit
