"""What runs in Spark's Python workers: reading the log, and a level's operators over their state.

A stage takes all rows of its task, hands each operator its own, and gives back what the operators have to tell, the
rows that only pass, and one note for the driver about the files it has written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from headwater.engine.batch import Batch, StageNote
from headwater.engine.cutting import COMMIT, OFFSET, up_to
from headwater.engine.merging import merge
from headwater.engine.runs import HIGHEST, LOWEST, Hashes, RunWriter, lookup
from headwater.errors import Overflow, TooManyRows, UsageError
from headwater.log.embedded import EmbeddedLog, open_log
from headwater.model.position import Position
from headwater.spark.failures import OPERATOR
from headwater.spark.slots import HASH, NOTE, NOTES, PASSING, ROUTE, WEIGHT
from headwater.views.aggregate import Aggregate
from headwater.views.kernel import Kernel, Part
from headwater.views.zset import consolidate, empty

BATCH = "headwater.batch"
"""The local property of a job that says what its batch is."""
ROWS_PER_BATCH = 200_000


class OperatorFailed(UsageError):
    """What a kernel refuses, told so that the driver finds the operator in the text that Spark hands it."""

    def __init__(self, number: int, error: UsageError) -> None:
        super().__init__(f"{OPERATOR} {number}: {error.message} hint: {error.hint}")


@dataclass(frozen=True, slots=True)
class StageSource:
    """A source as a worker needs it."""

    number: int
    topic: str | None
    constant: pa.Table | None
    columns: tuple[str, ...]
    slots: tuple[str, ...]
    sums: Aggregate | None


@dataclass(frozen=True, slots=True)
class StagePort:
    name: str
    edges: frozenset[int]
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StageOperator:
    """An operator as a worker needs it: where its rows are found, and where its results go."""

    number: int
    name: str
    kernel: Kernel
    ports: tuple[StagePort, ...]
    slots: tuple[str, ...]
    route: int
    is_view: bool
    empty: pa.Table | None
    empty_slots: tuple[str, ...]
    is_read: bool
    """Whether its rows go on to another stage."""
    producer: int | None
    """The operator of the same stage whose rows it takes as they are; `shown`: which of their columns."""
    shown: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadStage:
    """The stage that reads: each task its part of the topics' partitions."""

    sources: tuple[StageSource, ...]
    schema: pa.Schema

    def __call__(self, given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _drain(given)
        batch, task = current_batch(), _task()
        topics: dict[str, list[StageSource]] = {}
        for source in self.sources:
            if source.topic is not None:
                topics.setdefault(source.topic, []).append(source)
            elif source.constant is not None and batch.first and task == 0:
                yield from _rows(source.constant, source.number, source.slots, self.schema)
        for topic, readers in topics.items():
            yield from self._topic(topic, readers, batch, task)

    def _topic(self, topic: str, readers: Sequence[StageSource], batch: Batch, task: int) -> Iterator[pa.RecordBatch]:
        """The records of a topic, read once for all who want them."""
        columns = list(dict.fromkeys(name for source in readers for name in source.columns))
        summed: dict[int, list[pa.Table]] = {source.number: [] for source in readers if source.sums is not None}
        for records in _read(topic, columns, batch, task):
            for source in readers:
                chosen = records.select(list(source.columns))
                if source.sums is None:
                    yield from _rows(chosen, source.number, source.slots, self.schema)
                else:
                    summed[source.number].append(chosen.rename_columns(source.sums.schema.names))
        for source in readers:
            if source.sums is not None and summed[source.number]:
                rows = source.sums.summed(pa.concat_tables(summed[source.number]))
                yield from _rows(rows, source.number, source.slots, self.schema)


@dataclass(frozen=True, slots=True)
class FileStage:
    """The stage that goes on where the job before it ended: it reads rows of some routes, or of all others."""

    routes: frozenset[int]
    schema: pa.Schema
    others: bool = False

    def __call__(self, given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _drain(given)
        batch, task = current_batch(), _task()
        for number, file in enumerate(batch.files):
            if number % batch.tasks == task:
                with pa.memory_map(str(Path(batch.directory) / file)) as mapped:
                    by_route = _by_route(pa.ipc.open_stream(mapped).read_all())
                for route, rows in by_route.items():
                    if (route in self.routes) != self.others:
                        yield from rows.to_batches(ROWS_PER_BATCH)


@dataclass(frozen=True, slots=True)
class LevelStage:
    """The stage of one level. `into_files`: what it gives is for the next job, and goes into a file.

    `by_range`: a task is given the rows of its range of hashes; else those of some keys, whatever their hashes are.
    """

    level: int
    operators: tuple[StageOperator, ...]
    schema: pa.Schema
    into_files: bool = False
    by_range: bool = True

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch = current_batch()
        low, high = batch.hash_range(_task()) if self.by_range else (LOWEST, HIGHEST)
        writer = RunWriter(Path(batch.directory), name=f"{batch.number}-{self.level}", low=low, high=high)
        note = StageNote(self.level, _task())
        results = self._results(_as(self.schema, list(batches)), batch, writer, note)
        if self.into_files:
            note.file = _into_file(results, batch, self.schema)
        else:
            yield from results
        writer.close()
        yield from self._note(note)

    def _results(self, given: pa.Table, batch: Batch, writer: RunWriter, note: StageNote) -> Iterator[pa.RecordBatch]:
        by_route = _by_route(given)
        told: dict[int, pa.Table] = {}
        for operator in self.operators:
            yield from self._run(operator, by_route, told, batch, writer, note)
        for route, rows in by_route.items():
            relabelled = rows if route == NOTES else _routed(rows, route + PASSING)
            yield from relabelled.to_batches(ROWS_PER_BATCH)

    def _run(
        self,
        operator: StageOperator,
        by_route: dict[int, pa.Table],
        told: dict[int, pa.Table],
        batch: Batch,
        writer: RunWriter,
        note: StageNote,
    ) -> Iterator[pa.RecordBatch]:
        changes = {port.name: self._changes(operator, port, by_route, told) for port in operator.ports}
        rows_in = sum(rows.num_rows for rows in changes.values())
        first = batch.first
        if not rows_in and not first:
            return
        old = {} if operator.is_view else self._old(operator, changes, batch)
        try:
            step = operator.kernel.step(old, changes, first=first)
        except (Overflow, TooManyRows) as error:
            raise OperatorFailed(operator.number, error) from error
        for part, rows in step.state.items():
            _keep(operator, part, rows, batch, writer, note)
        note.operators[operator.number] = (rows_in, step.out.num_rows)
        told[operator.number] = step.out
        if operator.is_read or operator.route != operator.number:
            yield from _rows(step.out.drop_columns([HASH]), operator.route, operator.slots, self.schema)
        if operator.empty is not None:
            yield from self._empty(operator, old["rows"], step.state["rows"], first=first)

    def _empty(
        self, operator: StageOperator, old: pa.Table, delta: pa.Table, *, first: bool
    ) -> Iterator[pa.RecordBatch]:
        """What an aggregate without a key gives while it has no rows: it comes, and it goes with the first row."""
        before = int(np.sum(old[WEIGHT].to_numpy()))
        after = before + int(np.sum(delta[WEIGHT].to_numpy()))
        weight = int(after == 0) - int(before == 0 and not first)
        if weight and operator.empty is not None:
            rows = operator.empty.append_column(WEIGHT, pa.array([weight], pa.int64()))
            yield from _rows(rows, operator.number, operator.empty_slots, self.schema)

    def _changes(
        self, operator: StageOperator, port: StagePort, by_route: dict[int, pa.Table], told: dict[int, pa.Table]
    ) -> pa.Table:
        names = operator.kernel.ports[port.name].names
        if operator.producer is not None:
            rows = told.get(operator.producer)
            if rows is None:
                return empty(operator.kernel.ports[port.name], hashed=True)
            chosen = rows.select([0, *(place + 1 for place in operator.shown), rows.num_columns - 1])
            return chosen.rename_columns([HASH, *names, WEIGHT])
        found = [by_route.pop(edge) for edge in port.edges if edge in by_route]
        rows = pa.concat_tables(found) if found else self.schema.empty_table()
        rows = rows.select([HASH, *port.slots, WEIGHT])
        return rows.rename_columns([HASH, *names, WEIGHT])

    def _old(self, operator: StageOperator, changes: Mapping[str, pa.Table], batch: Batch) -> dict[str, pa.Table]:
        hashes = _distinct(np.concatenate([rows[HASH].to_numpy() for rows in changes.values()]))
        old = {}
        for name, part in operator.kernel.parts.items():
            runs = batch.runs.get(arrangement(operator, name), ())
            found = lookup(Path(batch.directory), runs, hashes, part_schema(part))
            old[name] = found if part.adds_up else consolidate(found, part.measures)
        return old

    def _note(self, note: StageNote) -> Iterator[pa.RecordBatch]:
        row = {ROUTE: [NOTES], HASH: [0], WEIGHT: [1], NOTE: [json.dumps(note.to_json())]}
        columns = [
            pa.array(row[field.name], field.type) if field.name in row else pa.nulls(1, field.type)
            for field in self.schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _distinct(hashes: Hashes) -> Hashes:
    """Each hash once, in order."""
    ordered = np.sort(hashes)
    distinct: Hashes = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered
    return distinct


def arrangement(operator: StageOperator, part: str) -> str:
    """What a part of an operator's state is called."""
    return operator.name if operator.is_view else f"{operator.name}/{part}"


def part_schema(part: Part) -> pa.Schema:
    """The columns of a part of a state on disk."""
    measures = [pa.field(name, pa.int64()) for name in part.measures]
    data = [pa.field(field.name, field.type) for field in part.schema]
    return pa.schema([pa.field(HASH, pa.int64()), *data, *measures])


def current_batch() -> Batch:
    """The batch of the job that this task belongs to."""
    context = TaskContext.get()
    assert context is not None
    text = context.getLocalProperty(BATCH)
    assert text is not None
    return _parsed(text)


@lru_cache(maxsize=2)
def _parsed(text: str) -> Batch:
    return Batch.from_json(json.loads(text))


def _drain(given: Iterable[pa.RecordBatch]) -> None:
    """Takes what Spark hands in, which is nothing of interest: a worker that leaves some of it is not used again."""
    for _ in given:
        pass


def _task() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


@lru_cache(maxsize=4)
def _log(directory: str) -> EmbeddedLog:
    return open_log(directory, create=False, upkeep=False)


def _keep(operator: StageOperator, part: str, rows: pa.Table, batch: Batch, writer: RunWriter, note: StageNote) -> None:
    """Adds to a part of an operator's state, and merges its runs where there are many."""
    name, measures = arrangement(operator, part), operator.kernel.parts[part].measures
    schema = part_schema(operator.kernel.parts[part])
    rows = rows.select(schema.names).cast(schema)
    added = writer.add(name, rows)
    if added is None:
        return
    note.added.append(added)
    if operator.is_view:
        note.changes.append(added)
    low, high = batch.hash_range(_task())
    merged = merge(Path(batch.directory), writer, batch.runs.get(name, ()), measures, schema, low=low, high=high)
    if merged.removed:
        note.merges.append(merged)


def _into_file(rows: Iterator[pa.RecordBatch], batch: Batch, schema: pa.Schema) -> str:
    """Puts rows where the next job of the batch finds them. Who loses the file runs the batch again, so no sync."""
    file = f"{batch.number}-{uuid.uuid4().hex}.rows"
    with pa.OSFile(str(Path(batch.directory) / file), "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
        for found in rows:
            stream.write_batch(found)
    return file


def _read(topic: str, columns: Sequence[str], batch: Batch, task: int) -> Iterator[pa.Table]:
    """A task's share of a topic's records in a batch: these columns and perhaps others."""
    log, end = _log(batch.log), Position.parse(batch.end)
    wanted = list(dict.fromkeys([*columns, OFFSET, COMMIT]))
    for piece in (piece.share(task, batch.tasks) for piece in batch.pieces if piece.topic == topic):
        for found in log.batches(topic, start=piece.first, end=piece.end, columns=wanted, partition=piece.partition):
            yield _without(up_to(found.records, end), topic, piece.partition, batch)


def _without(records: pa.Table, topic: str, partition: int, batch: Batch) -> pa.Table:
    """The records that are not excluded."""
    for excluded_topic, excluded_partition, first, last in batch.excluded:
        if excluded_topic == topic and excluded_partition == partition:
            offsets = records[OFFSET].to_numpy()
            records = records.filter(pa.array((offsets < first) | (offsets > last)))
    return records


def _rows(table: pa.Table, route: int, slots: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A producer's rows, its columns in their slots."""
    if not table.num_rows:
        return
    count = table.num_rows
    placed = dict(zip(slots, table.columns, strict=False))
    placed[ROUTE] = pa.chunked_array([pa.repeat(pa.scalar(route, pa.int32()), count)])
    placed[HASH] = pa.chunked_array([pa.repeat(pa.scalar(0, pa.int64()), count)])
    weights = table[WEIGHT] if WEIGHT in table.column_names else None
    placed[WEIGHT] = weights if weights is not None else pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), count)])
    columns = [
        placed[field.name].cast(field.type) if field.name in placed else pa.nulls(count, field.type) for field in schema
    ]
    yield from pa.table(columns, schema=schema).to_batches(ROWS_PER_BATCH)


def _as(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """What Spark hands in, with the types of the schema: where no null can be in a list, Spark's type says so."""
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def _routed(rows: pa.Table, route: int) -> pa.Table:
    index = rows.column_names.index(ROUTE)
    return rows.set_column(index, ROUTE, pa.repeat(pa.scalar(route, pa.int32()), rows.num_rows))


def _by_route(rows: pa.Table) -> dict[int, pa.Table]:
    """The rows of each route, in their order."""
    routes = rows[ROUTE].to_numpy()
    if not len(routes):
        return {}
    order = np.argsort(routes, kind="stable")
    ordered = rows if bool(np.all(order[:-1] < order[1:])) else rows.take(pa.array(order))
    present, first = np.unique(routes[order], return_index=True)
    ends = [*first[1:], len(routes)]
    return {
        int(route): ordered.slice(int(start), int(end) - int(start))
        for route, start, end in zip(present, first, ends, strict=True)
    }
