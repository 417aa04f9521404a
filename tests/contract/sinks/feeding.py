"""A view with a key that is published by hand, and a feed that brings it to a target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwater.engine.reading import Reader
from headwater.engine.sinks.delivering import TargetSink
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.target import Assignment, Target
from headwater.log.port import Log
from tests.unit.engine.samples import Driver, zset
from tests.webhooks.sending import QUICK, Feeding


class Keyed:
    """The view `v`, with one row per key."""

    def __init__(self, driver: Driver, directory: Path, log: Log) -> None:
        self.driver, self.directory, self.log = driver, directory, log
        self.held: dict[int, str] = {}
        self.versions: list[dict[int, str]] = [{}]

    def publish(self, **rows: str | None) -> None:
        """Publishes new texts of rows: `k1="one"`; None deletes the row."""
        self.change({int(name[1:]): text for name, text in rows.items()})

    def change(self, rows: dict[int, str | None]) -> None:
        changes = []
        for key, text in rows.items():
            before = self.held.get(key)
            if before is not None:
                changes.append((key, key, before, -1))
            if text is not None:
                changes.append((key, key, text, 1))
                self.held[key] = text
            else:
                self.held.pop(key, None)
        self.driver.publish({"v": zset(*changes)})
        self.versions.append(dict(self.held))

    def add(self, key: int, text: str, weight: int = 1) -> None:
        """Publishes a row, whatever is there."""
        self.driver.publish({"v": zset((key, key, text, weight))})

    def content(self) -> dict[int, str]:
        with Reader(self.directory) as reader:
            found = reader.read(["v"]).tables["v"]
        return dict(zip(found["key"].to_pylist(), found["text"].to_pylist(), strict=True))

    def sink(self, target: Target, name: str = "out") -> TargetSink:
        assignment = Assignment(self.directory.name, name, "v", ("key",))
        return TargetSink(target, assignment, self.directory, self.log, f"{name}.dead_letters")

    def feed(self, target: Target) -> Feed:
        """The feed of a process that does not run it."""
        return Feed(self.directory, "out", "v", self.sink(target), "content", QUICK)

    def audit(self, target: Target, *, repair: bool = False) -> dict[str, Any]:
        """What an audit finds, with the keys as numbers."""
        made = self.feed(target).audit(repair=repair)
        found = {**asdict(made), "equal": made.equal}
        for kind in ("missing", "different", "extra"):
            named = found[kind]["named"]
            assert found[kind]["count"] == len(named)
            found[kind] = sorted(each["key"] for each in named)
        return found

    @contextmanager
    def feeding(self, target: Target) -> Iterator[Feeding]:
        made = Feeding(self.directory, self.sink(target), "content")
        try:
            yield made
        finally:
            made.stop()

    def letters(self) -> list[dict[str, Any]]:
        if "out.dead_letters" not in [topic.name for topic in self.log.topics()]:
            return []
        return [dict(record.value or {}) for record in self.log.read("out.dead_letters")]
