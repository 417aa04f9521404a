"""A topic of another log as a system of the contract suite."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from headwater.connectors.topics.records import Format
from headwater.connectors.topics.target import Topic
from headwater.engine.sinks.target import Target
from headwater.errors import StorageFailed, UnknownTopic
from headwater.log.opening import open_log
from tests.contract.sinks.keyed import System


class TopicSystem(System):
    """A log with one topic, in one of the formats."""

    refuses: ClassVar[bool] = False

    def __init__(self, written: Format, url: str | None = None) -> None:
        self._format: Format = written
        self._place = tempfile.TemporaryDirectory(prefix="hw")
        self.log = open_log(url or Path(self._place.name) / "log", upkeep=False)

    def target(self) -> Target:
        return Topic("texts", log=self.log, format=self._format)

    def rows(self) -> dict[int, str]:
        try:
            held = self.log.table("texts").to_pylist()
        except UnknownTopic:
            return {}
        if self._format == "rows":
            return {row["key"]: row["text"] for row in held}
        values = [json.loads(row["value"]) for row in held]
        found = [value["after"] if self._format == "debezium" else value for value in values]
        return {row["key"]: row["text"] for row in found if row is not None}

    def put(self, key: int, text: str | None) -> None:
        named: Any = key if self._format == "rows" else str(key)
        if text is None:
            self.log.delete("texts", [{"key": named}])
            return
        row: dict[str, Any] = {"key": key, "text": text}
        if self._format != "rows":
            held = {"op": "u", "before": None, "after": row} if self._format == "debezium" else row
            row = {"key": named, "value": json.dumps(held)}
        self.log.append("texts", [row])

    def lose(self) -> None:
        self.log.drop("texts")

    def stop(self) -> None:
        def fail(*_: object, **__: object) -> Any:
            raise StorageFailed("there", "it is down")

        self.log.commit = fail  # type: ignore[method-assign]

    def start(self) -> None:
        del self.log.commit

    def close(self) -> None:
        self.log.close()
        self._place.cleanup()
