"""A line of the benchmark in Pathway, in streaming mode, with its result written as a stream of changes.

Pathway's own readers of Parquet (Delta Lake, Iceberg) ask for a licence key, so the same rows are handed to its CSV
reader, the fastest of the others; writing the CSV files is not counted.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bench.engine.peers import trickle
from bench.engine.peers.answering import CORES, Answer, CanNot, Question, Topic, main, netted

began = time.monotonic()
os.environ["PATHWAY_THREADS"] = str(CORES)
import pathway as pw  # noqa: E402 it takes its settings from the environment when it is imported

AUTOCOMMIT_MILLISECONDS = 1500
QUIET_SECONDS = 3.0
"""So long after the last row was counted nothing has been written: then all is done."""

TYPES = {"bigint": int, "string": str}
ID, OWN_ID = "id", "id_"
"""Every table of Pathway's has an `id` of its own, so a column cannot be called so."""

Tables = Mapping[str, Any]


def _sum(tables: Tables) -> Any:
    events = tables["events"]
    return events.groupby(events.key).reduce(events.key, n=pw.reducers.count(), total=pw.reducers.sum(events.amount))


def _join(tables: Tables) -> Any:
    orders, customers = tables["orders"], tables["customers"]
    pairs = orders.join(customers, orders.customer == customers.id_).select(customers.country, orders.amount)
    return pairs.groupby(pairs.country).reduce(
        pairs.country, n=pw.reducers.count(), total=pw.reducers.sum(pairs.amount)
    )


def _left_join(tables: Tables) -> Any:
    orders, customers = tables["orders"], tables["customers"]
    pairs = orders.join_left(customers, orders.customer == customers.id_)
    return pairs.select(orders.id_, orders.amount, country=customers.country)


def _min_max(tables: Tables) -> Any:
    items = tables["items"]
    return items.groupby(items.k).reduce(items.k, least=pw.reducers.min(items.v), most=pw.reducers.max(items.v))


def _distinct(tables: Tables) -> Any:
    items = tables["items"]
    return items.groupby(items.k).reduce(items.k, n=pw.reducers.count_distinct(items.v))


def _top(tables: Tables) -> Any:
    items = tables["items"]
    ranked = items.groupby(items.k).reduce(items.k, rows=pw.reducers.sorted_tuple(pw.make_tuple(-items.v, items.id_)))
    best = ranked.select(ranked.k, rows=pw.apply_with_type(_first_ten, list[tuple[int, int]], ranked.rows))
    rows = best.flatten(best.rows)
    return rows.select(rows.k, id_=rows.rows[1], v=-rows.rows[0])


def _first_ten(rows: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    return list(rows[:10])


def _first(tables: Tables) -> Any:
    items = tables["items"]
    best = items.groupby(items.k).reduce(items.k, row=pw.reducers.max(pw.make_tuple(items.v, -items.id_)))
    return best.select(best.k, id_=-best.row[1], v=best.row[0])


QUERIES: Mapping[str, Callable[[Tables], Any]] = {
    "sum": _sum, "sum_many": _sum, "join": _join, "left_join": _left_join, "min_max": _min_max,
    "distinct": _distinct, "top": _top, "first": _first,
}  # fmt: skip


class Counted:
    """How many rows of all topics have arrived, and Pathway's time of the last ones."""

    def __init__(self, rows: int) -> None:
        self._rows, self._seen = rows, dict[str, int]()
        self.all, self.time = threading.Event(), 0

    def note(self, topic: str, rows: int, time: int) -> None:
        self._seen[topic], self.time = rows, max(self.time, time)
        if sum(self._seen.values()) >= self._rows:
            self.all.set()


class Sent(pw.io.python.ConnectorSubject):  # type: ignore[misc]
    """Rows that are sent from another thread, a commit per batch."""

    def __init__(self) -> None:
        super().__init__()
        self._batches: queue.Queue[pa.Table | None] = queue.Queue()

    def send(self, number: int, rows: pa.Table) -> None:
        self._batches.put(rows)

    def run(self) -> None:
        while (rows := self._batches.get()) is not None:
            for row in rows.drop_columns(["seq"]).to_pylist():
                self.next(**{_own(name): value for name, value in row.items()})
            self.commit()


def run(question: Question) -> Answer:
    return _trickled(question) if question.line == trickle.LINE else _backlog(question)


def _trickled(question: Question) -> Answer:
    """Rows from the Python connector, and the result as a subscriber gets it."""
    trickled, subject = trickle.Trickle(question.batches), Sent()
    schema = pw.schema_from_types(**{_own(name): int for name in trickle.COLUMNS})
    items = pw.io.python.read(subject, schema=schema, autocommit_duration_ms=None)
    items = items.select(items.v, k=items.k % 5)
    counts = items.groupby(items.k).reduce(items.k, n=pw.reducers.count(), v=pw.reducers.sum(items.v))

    def on_change(key: object, row: Mapping[str, int], time: int, is_addition: bool) -> None:  # noqa: FBT001, ARG001
        if is_addition:
            trickled.note(row["k"], row["n"])

    pw.io.subscribe(counts, on_change)
    threading.Thread(target=_run, args=([],), daemon=True).start()
    milliseconds = trickled.run(subject.send)
    taken = sum(milliseconds) / 1000
    start_seconds = time.monotonic() - began - taken
    settings = {"threads": str(CORES), "persistence": "none"}
    versions = {"pathway": version("pathway")}
    return Answer(pa.table({}), taken, start_seconds, versions, settings, milliseconds=milliseconds)


def _backlog(question: Question) -> Answer:
    source, output = question.work / "csv", question.work / "changes.csv"
    converted = time.monotonic()
    for name in question.topics:
        _write_csv(question.files(name), source / name)
    not_counted = time.monotonic() - converted
    counted = Counted(question.rows)
    tables = {name: _table(name, topic, source / name, counted) for name, topic in question.topics.items()}
    pw.io.csv.write(QUERIES[question.line](tables), str(output))
    started, started_at = time.monotonic(), time.time()
    failed: list[BaseException] = []
    threading.Thread(target=_run, args=(failed,), daemon=True).start()
    while not counted.all.wait(1.0):
        if failed:
            raise CanNot(str(failed[0])) from failed[0]
    finished_at = _written(output, counted.time, failed)
    settings = {"threads": str(CORES), "autocommit_duration_ms": str(AUTOCOMMIT_MILLISECONDS), "persistence": "none"}
    seconds, start_seconds = finished_at - started_at, started - began - not_counted
    versions = {"pathway": version("pathway")}
    return Answer(_view(output), seconds, start_seconds, versions, settings, "from CSV")


def _run(failed: list[BaseException]) -> None:
    try:
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    except BaseException as error:  # noqa: BLE001 it is told to the thread that waits
        failed.append(error)


def _table(name: str, topic: Topic, folder: Path, counted: Counted) -> Any:
    """A topic as Pathway sees it: of the rows with one key the newest, unless it is a deletion."""
    types: dict[str, type] = {_own(column): TYPES[kind] for column, kind in topic.columns.items()}
    if topic.key is not None:
        types |= {"deleted": bool}
    rows = pw.io.csv.read(
        str(folder), schema=pw.schema_from_types(**types, seq=int), autocommit_duration_ms=AUTOCOMMIT_MILLISECONDS
    )

    def on_change(key: object, row: Mapping[str, int], time: int, is_addition: bool) -> None:  # noqa: FBT001, ARG001
        if is_addition:
            counted.note(name, row["rows"], time)

    pw.io.subscribe(rows.reduce(rows=pw.reducers.count()), on_change)
    if topic.key is None:
        return rows
    own_key = _own(topic.key)
    others = [_own(column) for column in topic.columns if column != topic.key]
    values = pw.make_tuple(rows.seq, rows.deleted, *[rows[column] for column in others])
    key = rows[own_key]
    newest = rows.groupby(key).reduce(key, row=pw.reducers.max(values))
    kept = newest.filter(~pw.unwrap(newest.row[1]))
    return kept.select(kept[own_key], **{column: kept.row[2 + place] for place, column in enumerate(others)})


def _own(column: str) -> str:
    return OWN_ID if column == ID else column


def _written(output: Path, until: int, failed: list[BaseException]) -> float:
    """When the last change was written: the file has changes of Pathway's last time, and grows no more."""
    while True:
        if failed:
            raise CanNot(str(failed[0])) from failed[0]
        at = output.stat().st_mtime
        if time.time() - at > QUIET_SECONDS and _last_time(output) >= until:
            return at
        time.sleep(0.2)


def _last_time(output: Path) -> int:
    """Pathway's time in the last row; the last columns are `time` and `diff`."""
    with output.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        lines = file.read().decode(errors="replace").splitlines()
    cells = lines[-1].replace('"', "").split(",") if lines else []
    return int(cells[-2]) if len(cells) > 2 and cells[-2].isdigit() else 0


def _write_csv(files: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True)
    for file in files:
        rows = pq.read_table(file)
        pa.csv.write_csv(rows.rename_columns([_own(name) for name in rows.column_names]), folder / f"{file.stem}.csv")


def _view(output: Path) -> pa.Table:
    nulls = pa.csv.ConvertOptions(strings_can_be_null=True, null_values=["", "None"])
    view = netted(pa.csv.read_csv(output, convert_options=nulls).drop_columns(["time"]), "diff")
    return view.rename_columns([ID if name == OWN_ID else name for name in view.column_names])


def _answer_and_end() -> None:
    """Pathway's threads read on; nothing but the end of the process stops them."""
    main(run)
    os._exit(0)


if __name__ == "__main__":
    _answer_and_end()
