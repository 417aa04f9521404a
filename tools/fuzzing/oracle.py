"""What views should hold, according to a Spark that knows nothing of headwater.

Where SQL leaves an answer open, raw Spark gives another one when its rows come in another order. Then the answer is
headwater's to settle, and a view must be what headwater's own batch query gives. What Spark gets wrong, the ORDER BY
of a correlated LIMIT whose column is not selected, it is asked in other words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.comparison import Difference, differences
from headwater.engine.publication import Excluded
from headwater.errors import PositionGone
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.position import START, Position
from headwater.spark.catalyst.disturbing import DISTURBING_SETTINGS
from headwater.spark.catalyst.history import names_system_columns
from headwater.spark.raw import FEW_ROWS, RawSpark
from headwater.spark.time_calls import time_calls, with_moments
from headwater.spark.topics import topic_schema
from tools.fuzzing.doubles import within
from tools.fuzzing.times import moments_at

_PARTITIONS = "spark.sql.shuffle.partitions"
_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
_HASHED = "spark.sql.execution.useObjectHashAggregateExec"
_SET = "collect_set("
_HISTORY = re.compile(r"\b(changes|versions)\('", re.IGNORECASE)
_VARIANTS: Sequence[Mapping[str, str]] = (
    {},
    {_PARTITIONS: "3"},
    {_PARTITIONS: "2", _BROADCAST: "-1"},
    {_HASHED: "false"},
    {_PARTITIONS: "5", _HASHED: "false"},
    {_BROADCAST: "-1"},
    {_PARTITIONS: "2"},
    {},
    {_PARTITIONS: "4", _BROADCAST: "-1", _HASHED: "false"},
    {},
    {_PARTITIONS: "3"},
    {},
)
"""Other ways to run a query; each is tried over rows in another order."""


class RawFailed(Exception):
    """Raw Spark fails on a query, over these rows."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a view's content; nothing, if there are no differences. `open`: the SQL leaves it open."""

    differences: Sequence[Difference] = ()
    open: bool = False
    note: str = ""


@dataclass(slots=True)
class _Known:
    """What was found out about a view, which holds as long as what it reads stays as it is."""

    expected: pa.Table
    others: list[pa.Table] = field(default_factory=list)
    right: pa.Table | None = None


class Oracle:
    """Runs views in raw Spark over the rows of a log at a position; time sources are the moments that they are at."""

    def __init__(
        self,
        session: Any,
        topics: Sequence[Topic],
        views: Mapping[str, str],
        reads: Mapping[str, frozenset[str]],
        meant: Mapping[str, str] | None = None,
    ) -> None:
        self._raw = RawSpark(session, FEW_ROWS)
        self._topics = {topic.name: topic for topic in topics}
        self._views, self._reads, self._meant = views, reads, {} if meant is None else meant
        self._rows: dict[str, pa.Table] = {}
        self._ends: dict[str, object] = {}
        self._records: Callable[[Topic], pa.Table] | None = None
        self._placed: dict[str, tuple[pa.Table, int | None]] = {}
        self._known: dict[str, _Known] = {}
        self._moments: Mapping[str, datetime] = {}

    def move(self, log: Log, position: Position, excluded: Sequence[Excluded] = ()) -> bool:
        """Takes the rows of all topics at a position, without records that were set aside.

        False if compaction has removed them, so that nobody can tell what views should have been.
        """
        moved = {}
        for name, topic in self._topics.items():
            mine = [row for row in excluded if row.topic == name]
            try:
                rows = rows_at(log, topic, position, mine)
            except PositionGone:
                return False
            end = {} if position == START else log.offsets(name, at=position), mine
            same = name in self._rows and self._rows[name].equals(rows) and self._ends[name] == end
            self._ends[name] = end
            if not same:
                moved[name] = rows
        self._rows |= moved
        moments = moments_at(log, list(self._topics), position)
        timed = {view for view, sql in self._views.items() if time_calls(sql)} if moments != self._moments else set()
        self._moments = moments
        self._records = lambda topic: records_at(
            log, topic, position, [row for row in excluded if row.topic == topic.name]
        )
        self._known = {
            view: known
            for view, known in self._known.items()
            if not ({view} | self._reads[view]) & (moved.keys() | timed)
        }
        return True

    def answer(self, view: str) -> pa.Table:
        """What raw Spark gives for a view. Raises `RawFailed`."""
        if view not in self._known:
            self._known[view] = _Known(self._answer(view, None))
        return self._known[view].expected

    def forget(self, view: str) -> None:
        """Lets a name stand for another query."""
        self._known.pop(view, None)

    def other_answers(self, view: str, count: int = len(_VARIANTS)) -> list[pa.Table]:
        """What raw Spark gives when rows come in other orders. Raises `RawFailed`."""
        known = self._known[view]
        for number in range(len(known.others), count):
            known.others.append(self._answer(view, number))
        return known.others

    def failures(self, view: str, count: int) -> list[str]:
        """The messages of this many runs in other orders that fail, and an empty text for each that does not."""
        found = []
        for number in range(count):
            try:
                self._answer(view, number or None)
                found.append("")
            except RawFailed as error:
                found.append(str(error) or "It fails.")
        return found

    def judge(
        self, view: str, content: pa.Table, settled: Callable[[], pa.Table], *, has_rules: bool = True
    ) -> Verdict:
        """Whether a view's content is right. `settled` gives the answer of headwater's own batch query.

        Without rules of headwater's (`has_rules`), a view whose answer SQL leaves open should have been refused.
        """
        expected = self.answer(view)
        found = differences(content, self._cast(expected, content))
        if not found:
            return Verdict()
        known = self._known[view]
        if known.right is not None and not differences(content, known.right):
            return Verdict(open=True)
        others = [self._cast(other, content) for other in self.other_answers(view)]
        expected = self._cast(expected, content)
        if not any(differences(other, expected) for other in others):
            same = "" if differences(content, settled()) else ", and verify would not notice"
            return Verdict(found, note=f"all answers of raw Spark agree{same}")
        if within(content, expected, others):
            return Verdict(open=True)
        if not has_rules:
            return Verdict(found, open=True, note="left open by SQL, and no rule decides: it should have been refused")
        return self._by_rule(view, content, settled, [expected, *others])

    def _by_rule(
        self, view: str, content: pa.Table, settled: Callable[[], pa.Table], others: Sequence[pa.Table]
    ) -> Verdict:
        """Whether a view's content is what headwater's own batch query gives."""
        known = self._known[view]
        if known.right is not None and not differences(content, known.right):
            return Verdict(open=True)
        rule = settled()
        found = differences(content, rule)
        if found and not within(content, rule, others):
            return Verdict(found, open=True, note="left open by SQL; not what headwater's own batch query gives")
        known.right = content
        return Verdict(open=True)

    def _cast(self, answer: pa.Table, content: pa.Table) -> pa.Table:
        return answer.rename_columns(content.column_names).cast(content.schema)

    def _answer(self, view: str, variant: int | None) -> pa.Table:
        varied = {} if variant is None else {**_VARIANTS[variant], **DISTURBING_SETTINGS}
        conf = self._raw.session.conf
        try:
            for name, value in varied.items():
                conf.set(name, value)
            with_history = any(map(_has_history, [self._views[view], *map(self._views.get, self._reads[view])]))
            for topic in self._reads[view] & self._topics.keys():
                self._put(topic, variant, with_history=with_history)
            return self._run(view, variant)
        except Exception as error:
            raise RawFailed(str(error)) from error
        finally:
            for name in varied:
                if name in FEW_ROWS:
                    conf.set(name, FEW_ROWS[name])
                else:
                    conf.unset(name)

    def _run(self, view: str, variant: int | None) -> pa.Table:
        for name in self._views:
            if name in self._reads[view]:
                self._raw.name(name, self._frame(name, variant))
        return self._raw.answer(self._frame(view, variant))

    def _frame(self, view: str, variant: int | None) -> Any:
        sql = self._views[view]
        for said, meant in self._meant.items():
            sql = sql.replace(said, meant)
        sql = with_moments(sql, self._moments)
        return self._raw.frame(sql, sorted_sets=_SET in sql, seed=variant)

    def _put(self, topic: str, seed: int | None, *, with_history: bool) -> None:
        wanted = self._rows[topic], seed
        placed = self._placed.get(topic)
        same = placed is not None and placed[0] is wanted[0] and placed[1] == seed
        if not same:
            self._raw.put(topic, wanted[0], topic_schema(self._topics[topic]), seed=seed)
            self._placed[topic] = wanted
        if with_history and self._records is not None:
            self._raw.put_records(self._topics[topic], self._records(self._topics[topic]), seed=seed)


def _has_history(sql: str | None) -> bool:
    """Whether a query reads more of a topic than its rows."""
    return sql is not None and (names_system_columns(sql) or _HISTORY.search(sql) is not None)


def rows_at(log: Log, topic: Topic, position: Position, excluded: Sequence[Excluded] = ()) -> pa.Table:
    """A topic as a query sees it: a stream's records, or a table's newest row per key. Raises `PositionGone`."""
    if position == START:
        return topic.schema.empty_table()
    if topic.key and not excluded:
        return log.table(topic.name, at=position).select(topic.schema.names)
    records = records_at(log, topic, position, excluded)
    if topic.key:
        records = records.sort_by([("_commit", "ascending"), ("_offset", "ascending")])
        keys = zip(*(records[name].to_pylist() for name in topic.key), strict=True)
        newest = {key: number for number, key in enumerate(keys)}
        records = records.take(pa.array(sorted(newest.values()), pa.int64()))
        records = records.filter(pc.invert(records["_deleted"]))
    return records.select(topic.schema.names)


def records_at(log: Log, topic: Topic, position: Position, excluded: Sequence[Excluded] = ()) -> pa.Table:
    """All records of a topic up to a position."""
    records = log.scan(topic.name, end=0 if position == START else position)
    for row in excluded:
        mine = pc.and_(pc.equal(records["_partition"], row.partition), pc.equal(records["_offset"], row.offset))
        records = records.filter(pc.invert(mine))
    return records
