"""What a query reads: which views and topics it names, and what they hold, all at one position."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import reduce

import pyarrow as pa

from headwater.engine.at_position import AtPosition, rewritten, words
from headwater.engine.reading import Reader
from headwater.engine.topic_rows import TopicRows
from headwater.errors import InvalidQuery, UnknownView
from headwater.model.position import Position
from headwater.model.record import SQL_COLUMNS


class Reading:
    """One query over views, and over topics if there are any. `sql` is the query as DuckDB takes it."""

    def __init__(self, reader: Reader, topics: TopicRows | None, sql: str) -> None:
        self._reader, self._topics = reader, topics
        self._known_topics = {} if topics is None else _folded(topics.names())
        self._known_views = _folded(reader.views())
        dotted = {name for name in (*self._known_topics, *self._known_views) if "." in name}
        self.sql, self._earlier = rewritten(sql, dotted)
        self._said = {word.name.lower() for word in words(self.sql) if word.kind == "name"}
        self._system = [name for name in SQL_COLUMNS if name in self._said]

    def content(
        self, names: Collection[str], at_least: Position | None, timeout: timedelta
    ) -> tuple[Position, Mapping[str, pa.Table]]:
        """The position, and the tables that DuckDB needs by their names. `names` are those that it finds in the query.

        Raises `NotYet`, `UnknownView`, `PositionGone`, `ViewPositionBetween`.
        """
        tables = {one.alias: self._at(one, timeout) for one in self._earlier}
        lowered = {name.lower() for name in names} - tables.keys()
        for name in lowered & self._known_views.keys() & self._known_topics.keys():
            raise InvalidQuery(None, f"{name!r} is a view and a topic: give one of them another name.")
        views = [name for folded, name in self._known_views.items() if folded in lowered]
        topics = [name for folded, name in self._known_topics.items() if folded in lowered]
        if tables and not lowered:
            return reduce(Position.joined, [one.position for one in self._earlier]), tables
        if self._topics is not None and topics and len(topics) == len(lowered):
            position = self._topics.position(at_least, timeout)
        else:
            position = self._reader.read([], at_least, timeout).position
            if not lowered or len(views) + len(topics) < len(lowered):
                # It names something else, such as the catalog of tables, or columns that DuckDB looks for in them.
                views = list(self._known_views.values())
                topics = [name for folded, name in self._known_topics.items() if folded in self._said]
            snapshot = self._reader.read(views, position, timeout)
            position = snapshot.position
            tables |= snapshot.tables
        for name in topics:
            assert self._topics is not None
            tables[name] = self._topics.read(name, position, self._system)
        return position, tables

    def unknown(self, name: str) -> UnknownView:
        """What to say if there is no such view."""
        return UnknownView(name, list(self._known_views.values()), list(self._known_topics.values()))

    def _at(self, given: AtPosition, timeout: timedelta) -> pa.Table:
        """A view or a topic as it was at a position."""
        folded = given.name.lower()
        if folded in self._known_topics and self._topics is not None:
            self._topics.position(given.position, timeout)
            return self._topics.read(self._known_topics[folded], given.position, self._system)
        if folded not in self._known_views:
            raise self.unknown(given.name)
        view = self._known_views[folded]
        return self._reader.read_at([view], given.position, timeout).tables[view]


def _folded(names: list[str]) -> dict[str, str]:
    return {name.lower(): name for name in names}
