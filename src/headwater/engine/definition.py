"""A pipeline's definition: its views and all that their meaning depends on, and how they were planned."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from headwater.engine.explanation import Explanation
from headwater.errors import UnknownView
from headwater.log.topic import Memory
from headwater.views.zset import HASH, WEIGHT


@dataclass(frozen=True)
class DefinedView:
    """A view: its SQL, its data columns, and the topics and views that it reads."""

    sql: str
    schema: pa.Schema
    reads: tuple[str, ...] = ()

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """The columns of the view's runs: its hash, its data columns, its weight."""
        return pa.schema([pa.field(HASH, pa.int64()), *self.schema, pa.field(WEIGHT, pa.int64())])

    def to_json(self) -> dict[str, Any]:
        schema = base64.b64encode(self.schema.serialize()).decode()
        return {"sql": self.sql, "schema": schema, "reads": list(self.reads)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DefinedView:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value["schema"])))
        return cls(value["sql"], schema, tuple(value["reads"]))


@dataclass(frozen=True, slots=True)
class DefinedTopic:
    """A topic that views read: its columns, as DDL, its key, and whether views `forget` what retention deletes.

    `late` is the rule by which late records are dropped, as `LateRule` writes it; nothing if none are.
    """

    columns: str
    key: tuple[str, ...] = ()
    views: Memory = "forget"
    late: tuple[Any, ...] = ()

    def to_json(self) -> list[Any]:
        # Without a rule it is what it was before there were rules, so that nothing is built again.
        return [self.columns, list(self.key), self.views, *([list(self.late)] if self.late else [])]

    @classmethod
    def from_json(cls, value: list[Any]) -> DefinedTopic:
        columns, key, views, *late = value
        return cls(columns, tuple(key), views, tuple(late[0]) if late else ())


@dataclass(frozen=True, slots=True)
class Definition:
    """What a generation was made from. `version` is that of the planner, `functions` the fingerprint of each function.

    What the views mean follows from everything but the explanation, which says how they were planned.
    """

    version: int = 0
    views: Mapping[str, DefinedView] = field(default_factory=dict)
    topics: Mapping[str, DefinedTopic] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    explanation: Explanation = field(default_factory=Explanation)

    def view(self, name: str) -> DefinedView:
        """One of the views. Raises `UnknownView`."""
        if name not in self.views:
            raise UnknownView(name, list(self.views))
        return self.views[name]

    @property
    def topics_read(self) -> list[str]:
        """The topics that views name."""
        reads = [read for view in self.views.values() for read in view.reads]
        return list(dict.fromkeys(read for read in reads if read not in self.views))

    @property
    def meaning(self) -> str:
        """What the views mean, as text that is the same for the same meaning."""
        views = {
            name: {part: value for part, value in view.to_json().items() if part != "reads"}
            for name, view in self.views.items()
        }
        return json.dumps({**self.to_json(), "views": views, "explanation": None}, sort_keys=True)

    def narrowed(self, other: Definition) -> Definition:
        """The definition with those views and topics only that another one has."""
        return replace(
            self,
            views={name: view for name, view in self.views.items() if name in other.views},
            topics={name: topic for name, topic in self.topics.items() if name in other.topics},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "views": {name: view.to_json() for name, view in self.views.items()},
            "topics": {name: topic.to_json() for name, topic in self.topics.items()},
            "functions": dict(self.functions),
            "explanation": self.explanation.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Definition:
        return cls(
            value["version"],
            {name: DefinedView.from_json(view) for name, view in value["views"].items()},
            {name: DefinedTopic.from_json(topic) for name, topic in value["topics"].items()},
            value["functions"],
            Explanation.from_json(value["explanation"]),
        )
