"""A line of the benchmark in Spark's `transformWithState`, in Python: for what its native operators do not do.

One processor finds the newest row of each key and hands on what changed, with weights; a second one keeps the rows of a
group, and says what became of the group. Both take the variant with rows, which is faster than the one with pandas.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.engine.peers.answering import Answer, Question, Topic, main, netted, newest
from bench.engine.peers.spark_session import ROCKSDB, SETTINGS, VERSIONS, drain, session, stream, timed

FILES_PER_BATCH = 1
PAIR = "struct<id: bigint, value: bigint>"
Pairs = list[tuple[int, int]]


class Newest(StatefulProcessor):
    """Rows of one key: what the newest one changes. Deleted keys are kept, because an older row may come later."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = ", ".join(f"{name} {kind}" for name, kind in self._columns.items())
        self._state = handle.getValueState("newest", f"{schema}, deleted boolean, seq bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        old = self._state.get()
        last = max(rows, key=lambda row: row.seq)
        new = tuple(last[name] for name in (*self._columns, "deleted", "seq"))
        if old is not None and old[-1] > new[-1]:
            return
        self._state.update(new)
        shape = Row(*self._columns, "weight")
        if old is not None and not old[-2]:
            yield shape(*old[:-2], -1)
        if not new[-2]:
            yield shape(*new[:-2], 1)


class Summed(StatefulProcessor):
    """Count and sum of a group."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("sums", "n bigint, total bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        n, total = self._state.get() or (0, 0)
        for row in rows:
            n, total = n + 1, total + row.amount
        self._state.update((n, total))
        yield Row(key=key[0], n=n, total=total)


class Grouped(StatefulProcessor):
    """The rows of a group, and what a function makes of them when they have changed."""

    def __init__(self, outcome: Callable[[Pairs], list[list[int]]]) -> None:
        self._outcome = outcome

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("rows", f"rows array<{PAIR}>")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        kept = _changed(self._state, ((row.weight, row.id, row.v) for row in rows))
        yield Row(k=key[0], outcome=self._outcome(kept))


class Joined(StatefulProcessor):
    """The orders of a customer and its country: changes of their pairs, with weights."""

    def __init__(self, *, outer: bool) -> None:
        self._outer = outer

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._orders = handle.getValueState("orders", f"rows array<{PAIR}>")
        self._country = handle.getValueState("country", "country string")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        before, orders = self._known(), _rows(self._orders)
        changes, countries = [], []
        for row in rows:
            if row.amount is not None:
                changes.append((row.weight, row.id, row.amount))
            else:
                countries.append((row.weight, row.country))
        if countries:
            # A customer's old and new row may come in any order; the new one counts, if there is one.
            weight, country = max(countries, key=lambda change: change[0])
            if weight > 0:
                self._country.update((country,))
            else:
                self._country.clear()
        kept, after = _changed(self._orders, iter(changes)) if changes else orders, self._known()
        shape = Row("id", "amount", "country", "weight")
        yield from (shape(*pair, before, -1) for pair in orders if before is not None or self._outer)
        yield from (shape(*pair, after, 1) for pair in kept if after is not None or self._outer)

    def _known(self) -> str | None:
        known = self._country.get()
        return known[0] if known else None


def _rows(state: Any) -> Pairs:
    kept = state.get()
    return [(pair[0], pair[1]) for pair in kept[0]] if kept else []


def _changed(state: Any, changes: Iterator[tuple[int, int, int]]) -> Pairs:
    """Adds and takes away rows of a group; the weight may come in any order within a batch."""
    weights: dict[tuple[int, int], int] = dict.fromkeys(_rows(state), 1)
    for weight, *pair in changes:
        weights[pair[0], pair[1]] = weights.get((pair[0], pair[1]), 0) + weight
    kept = [pair for pair, weight in weights.items() if weight]
    state.update((kept,))
    return kept


def _min_max(rows: Pairs) -> list[list[int]]:
    values = [value for _, value in rows]
    return [[min(values), max(values)]] if values else []


def _distinct(rows: Pairs) -> list[list[int]]:
    return [[len({value for _, value in rows})]] if rows else []


def _top(rows: Pairs, limit: int = 10) -> list[list[int]]:
    return [[key, value] for key, value in sorted(rows, key=lambda row: (-row[1], row[0]))[:limit]]


def _first(rows: Pairs) -> list[list[int]]:
    return _top(rows, 1)


OUTCOMES: Mapping[str, tuple[Callable[[Pairs], list[list[int]]], tuple[str, ...]]] = {
    "min_max": (_min_max, ("least", "most")),
    "distinct": (_distinct, ("n",)),
    "top": (_top, ("id", "v")),
    "first": (_first, ("id", "v")),
}


def run(question: Question) -> Answer:
    began = time.monotonic()
    settings = {**SETTINGS, "spark.sql.streaming.stateStore.providerClass": ROCKSDB}
    with session(settings) as spark:

        def job(source: Path, folder: Path) -> None:
            drain(_query(spark, question, source), folder)

        seconds = timed(question, job)
        start_seconds = time.monotonic() - began - seconds
    rows = ds.dataset(question.work / "run" / "rows", partitioning="hive").to_table()
    shown = {**settings, "maxFilesPerTrigger": str(FILES_PER_BATCH)}
    return Answer(_view(question.line, rows), seconds, start_seconds, VERSIONS, shown)


def _query(spark: SparkSession, question: Question, source: Path) -> DataFrame:
    tables = {
        name: _table(stream(spark, topic, source / name, FILES_PER_BATCH), topic)
        for name, topic in question.topics.items()
    }
    if "events" in tables:
        return _stateful(tables["events"].groupBy("key"), Summed(), "key string, n bigint, total bigint")
    if question.line in OUTCOMES:
        outcome, _ = OUTCOMES[question.line]
        return _stateful(tables["items"].groupBy("k"), Grouped(outcome), "k bigint, outcome array<array<bigint>>")
    orders = tables["orders"].select("customer", "id", "amount", f.lit(None).cast("string").alias("country"), "weight")
    none = f.lit(None).cast("bigint")
    customers = tables["customers"].select(
        f.col("id").alias("customer"), none.alias("id"), none.alias("amount"), "country", "weight"
    )
    outer = question.line == "left_join"
    pairs = _stateful(
        orders.union(customers).groupBy("customer"), Joined(outer=outer),
        "id bigint, amount bigint, country string, weight int",
    )  # fmt: skip
    if outer:
        return pairs
    totals = [f.sum("weight").alias("n"), f.sum(f.col("amount") * f.col("weight")).alias("total")]
    return pairs.groupBy("country").agg(*totals)


def _table(rows: DataFrame, topic: Topic) -> DataFrame:
    if topic.key is None:
        return rows
    schema = ", ".join(f"{name} {kind}" for name, kind in topic.columns.items())
    return _stateful(rows.groupBy(topic.key), Newest(topic.columns), f"{schema}, weight int")


def _stateful(groups: Any, processor: StatefulProcessor, schema: str) -> DataFrame:
    result: DataFrame = groups.transformWithState(
        statefulProcessor=processor, outputStructType=schema, outputMode="Update", timeMode="None"
    )
    return result


def _view(line: str, rows: pa.Table) -> pa.Table:
    if line == "left_join":
        return netted(rows.drop_columns(["batch"]), "weight")
    view = newest(rows, rows.column_names[0], "batch")
    if line not in OUTCOMES:
        return view.filter(pc.not_equal(view["n"], 0))
    _, names = OUTCOMES[line]
    flat = [(k, *values) for k, outcome in zip(*view.to_pydict().values(), strict=True) for values in outcome]
    return pa.table(dict(zip(("k", *names), map(list, zip(*flat, strict=True)), strict=True)))


if __name__ == "__main__":
    main(run)
