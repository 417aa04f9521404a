"""Topics that are made one after the other, by more than one process."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import TopicExists
from headwater.log.embedded import registry


def test_making_a_topic_does_not_read_all_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hw.open(tmp_path) as log:
        log.create("first", "n int")
        read: list[int] = []
        load = registry._load

        def counted(*arguments: object) -> object:
            found = load(*arguments)  # type: ignore[arg-type]
            read.append(len(found))
            return found

        monkeypatch.setattr(registry, "_load", counted)
        for number in range(50):
            log.create(f"t{number}", "n int")
        assert sum(read) <= 2 * 50
        assert len(log.topics()) == 51


def test_topics_of_others_and_dead_letters_are_known(tmp_path: Path) -> None:
    with hw.open(tmp_path) as log, hw.open(tmp_path) as other:
        log.create("a", "n int")
        other.create("b", "n int")
        log.create("c", "n int", dead_letter="d")
        log.create("e", "n int")
        assert {topic.name for topic in log.topics()} == {topic.name for topic in other.topics()} == set("abcde")
        with pytest.raises(TopicExists):
            log.create("b", "n int")
        assert log.create("b", "n int", exist_ok=True).name == "b"
