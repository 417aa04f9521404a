"""What runs in Spark's Python workers: reading the log, and the operators of levels over their state.

A stage begins with the records of a task, or with what Spark hands it; it runs the operators of some levels one after
the other; and it ends by giving Spark the rows that an expression is to be computed of, everything else as parcels, and
one note per level for the driver about the files that were written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from headwater.engine.arrangements import part_of
from headwater.engine.batch import Batch, StageNote
from headwater.engine.merging import merge
from headwater.engine.opening import open_blobs
from headwater.engine.runs import Hashes, Run, RunWriter, between, keep_open, load, lookup
from headwater.engine.time_ordered import TimeOrdered
from headwater.errors import InternalError, OperatorBroken, OperatorFailed, Overflow, TooManyRows
from headwater.spark.failures import BROKEN, OPERATOR
from headwater.spark.parcels import Mail, Route, note, unpacked
from headwater.spark.records import StageSource, read
from headwater.spark.slots import NOTES, PARCELS, ROUTE, WEIGHT
from headwater.views.due_order import microseconds, owned, stretches
from headwater.views.kernel import Due, Kernel, Part
from headwater.views.zset import HASH, consolidate, empty, rows_at, weights_of

BATCH = "headwater.batch"
"""The local property of a job that says what its batch is."""
ROWS_PER_BATCH = 200_000


@dataclass(frozen=True, slots=True)
class StageOperator:
    """An operator as a worker needs it: the edges that lead to each port, and where its results go."""

    number: int
    name: str
    kernel: Kernel
    ports: Mapping[str, tuple[int, ...]]
    rows: int | None
    """The number that the rows for its node of Spark's own go by, if it has one."""
    is_view: bool
    beside: int | None
    """The operator of the same level whose rows it takes as they are; `shown`: which of their columns."""
    shown: tuple[int, ...]
    once: bool
    """Whether every row that it gets comes once."""


@dataclass(frozen=True, slots=True)
class Level:
    """The operators of one level, in the order in which they run."""

    number: int
    operators: tuple[StageOperator, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """What a task does in one go.

    `sources`: what it reads, None if Spark hands it rows. `routes` are all edges, `onward` by producer those that need
    nothing computed, `slots` by producer where Spark expects its rows. `into_file`: what it gives is for the next job.
    """

    sources: tuple[StageSource, ...] | None
    levels: tuple[Level, ...]
    routes: Mapping[int, Route]
    onward: Mapping[int, tuple[int, ...]]
    slots: Mapping[int, tuple[str, ...]]
    schema: pa.Schema
    into_file: bool = False

    def __call__(self, given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch, mail = current_batch(), Mail()
        notes: list[StageNote] = []
        results = self._results(given, batch, mail, notes)
        if self.into_file:
            file = _into_file(results, batch, self.schema)
            notes[-1].file = file
        else:
            yield from results
        for made in notes:
            yield note(self.schema, json.dumps(made.to_json()))

    def _results(
        self, given: Iterable[pa.RecordBatch], batch: Batch, mail: Mail, notes: list[StageNote]
    ) -> Iterator[pa.RecordBatch]:
        if self.sources is None:
            yield from self._received(given, mail)
        else:
            _drain(given)
            yield from self._read(self.sources, batch, mail)
        if self.levels:
            # One file for all levels: fewer files to sync now, and to keep for subscribers.
            low, high = batch.hash_range(_task())
            name = f"{batch.number}-{self.levels[0].number}"
            writer = RunWriter(open_blobs(batch.blobs), name=name, low=low, high=high)
            for level in self.levels:
                made = StageNote(level.number, _task())
                yield from _LevelRun(self, level, batch, mail, made, writer).results()
                notes.append(made)
            writer.close()
        yield from mail.packed(batch.tasks, self.schema)

    def _received(self, given: Iterable[pa.RecordBatch], mail: Mail) -> Iterator[pa.RecordBatch]:
        """Sorts what Spark hands in: parcels are opened, notes continue."""
        brought: dict[int, list[pa.Table]] = {}
        for batch in given:
            for number, rows in _by_route(_typed(self.schema, batch)).items():
                if number >= PARCELS:
                    mail.add(number - PARCELS, unpacked(rows, self.routes[number - PARCELS].schema))
                elif number == NOTES:
                    yield from rows.to_batches()
                else:
                    brought.setdefault(number, []).append(self.routes[number].projected(rows))
        self._address(brought, mail)

    def _read(self, sources: Sequence[StageSource], batch: Batch, mail: Mail) -> Iterator[pa.RecordBatch]:
        brought: dict[int, list[pa.Table]] = {}
        for number, rows in read(sources, batch, _task()):
            if number in self.slots:
                yield from self.in_slots(number, rows)
            for edge in self.onward.get(number, ()):
                brought.setdefault(edge, []).append(self.routes[edge].chosen(rows))
        self._address(brought, mail)

    def _address(self, brought: Mapping[int, Sequence[pa.Table]], mail: Mail) -> None:
        for edge, tables in brought.items():
            mail.add(edge, self.routes[edge].addressed(pa.concat_tables(tables)))

    def in_slots(self, producer: int, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """A producer's rows for Spark, its columns in their slots."""
        if not rows.num_rows:
            return
        count = rows.num_rows
        placed = dict(zip(self.slots[producer], rows.columns, strict=False))
        placed[ROUTE] = pa.chunked_array([pa.repeat(pa.scalar(producer, pa.int32()), count)])
        placed[WEIGHT] = (
            rows[WEIGHT] if WEIGHT in rows.column_names else pa.chunked_array([np.ones(count, dtype=np.int64)])
        )
        columns = [
            placed[field.name].cast(field.type) if field.name in placed else pa.nulls(count, field.type)
            for field in self.schema
        ]
        yield from pa.table(columns, schema=self.schema).to_batches(ROWS_PER_BATCH)


@dataclass(frozen=True, slots=True)
class FileStage:
    """The stage that continues where the job before it ended: it reads rows of some routes, or of all others."""

    routes: frozenset[int]
    schema: pa.Schema
    others: bool = False

    def __call__(self, given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _drain(given)
        batch, task = current_batch(), _task()
        for number, file in enumerate(batch.files):
            if number % batch.tasks == task:
                with open_blobs(batch.blobs).open(file) as blob:
                    found = _by_route(pa.ipc.open_stream(blob.view(0, blob.size)).read_all())
                for route, rows in found.items():
                    if (route in self.routes) != self.others:
                        yield from rows.to_batches(ROWS_PER_BATCH)


class _LevelRun:
    """The operators of a level at work on a batch."""

    def __init__(
        self, stage: Stage, level: Level, batch: Batch, mail: Mail, made: StageNote, writer: RunWriter
    ) -> None:
        self._stage, self._level, self._batch, self._mail, self._note = stage, level, batch, mail, made
        self._writer = writer
        self._moved = batch.frontier.moved_since(batch.frontier_before)
        self._told: dict[int, pa.Table] = {}

    def results(self) -> Iterator[pa.RecordBatch]:
        for operator in self._level.operators:
            yield from self._run(operator)

    def _run(self, operator: StageOperator) -> Iterator[pa.RecordBatch]:
        changes = {port: self._changes(operator, port, edges) for port, edges in operator.ports.items()}
        rows_in = sum(rows.num_rows for rows in changes.values())
        first = self._batch.first
        if not rows_in and not first and self._moved.isdisjoint(operator.kernel.time_sources):
            return
        if operator.is_view and not operator.once:
            changes = {port: consolidate(rows) for port, rows in changes.items()}
        try:
            step = operator.kernel.step(self._old(operator, changes), changes, self._batch.frontier, first=first)
        except (Overflow, TooManyRows) as error:
            raise OperatorFailed(f"{OPERATOR} {operator.number}: {error.message} hint: {error.hint}") from error
        except InternalError as error:
            raise OperatorBroken(f"{BROKEN} {operator.number}: {error.message}") from error
        for part, rows in step.state.items():
            self._keep(operator, part, rows)
        self._note.operators[operator.number] = (rows_in, step.out.num_rows)
        self._told[operator.number] = step.out
        yield from self._tell(operator, step.out)
        if operator.rows is not None and step.rows is not None:
            yield from self._stage.in_slots(operator.rows, step.rows.drop_columns([HASH]))

    def _tell(self, operator: StageOperator, out: pa.Table) -> Iterator[pa.RecordBatch]:
        """Sends an operator's rows on their ways."""
        rows = out.drop_columns([HASH])
        if operator.number in self._stage.slots:
            # A row that cancels out was never there, and an expression could fail on it.
            told = rows if operator.kernel.consolidated else consolidate(rows)
            yield from self._stage.in_slots(operator.number, told)
        for edge in self._stage.onward.get(operator.number, ()):
            route = self._stage.routes[edge]
            self._mail.add(edge, route.addressed(route.chosen(rows)))

    def _changes(self, operator: StageOperator, port: str, edges: Sequence[int]) -> pa.Table:
        schema = operator.kernel.ports[port]
        if operator.beside is None:
            found = [self._mail.take(self._stage.routes[edge]) for edge in edges]
            return pa.concat_tables(found).combine_chunks() if found else empty(schema, hashed=True)
        rows = self._told.get(operator.beside)
        if rows is None:
            return empty(schema, hashed=True)
        chosen = rows.select([0, *(place + 1 for place in operator.shown), rows.num_columns - 1])
        return chosen.rename_columns([HASH, *schema.names, WEIGHT])

    def _old(self, operator: StageOperator, changes: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        distinct = {port: _distinct(rows[HASH].to_numpy()) for port, rows in changes.items()}
        old: dict[str, pa.Table] = {}
        in_time = [name for name, part in operator.kernel.parts.items() if part.in_time]
        if in_time:
            old.update(operator.kernel.lookup(changes, self._in_time(operator, in_time)))
        for name, part in operator.kernel.parts.items():
            if part.in_time:
                continue
            if part.due is not None and part.due.in_order:
                old[name] = consolidate(self._due_in_order(part, part.due, arrangement(operator, name)), part.measures)
                continue
            if part.retracted:
                distinct = {
                    port: _distinct(rows[HASH].to_numpy()[weights_of(rows) < 0]) for port, rows in changes.items()
                }
            ports = [port for port in distinct if part.ports is None or port in part.ports]
            hashes = distinct[ports[0]] if len(ports) == 1 else _distinct(np.concatenate([distinct[p] for p in ports]))
            runs = self._batch.runs.get(arrangement(operator, name), ())
            if part.due is not None and part.due.source in self._moved:
                found = self._due(part, part.due, runs, hashes)
            else:
                found = lookup(open_blobs(self._batch.blobs), runs, hashes, part_schema(part))
            found = found.combine_chunks()
            old[name] = found if part.adds_up else consolidate(found, part.measures)
        return old

    def _in_time(self, operator: StageOperator, names: Sequence[str]) -> TimeOrdered:
        """The parts of an operator's state that lie in time order."""
        parts = {name: operator.kernel.parts[name] for name in names}
        schemas = {name: part_schema(part) for name, part in parts.items()}
        runs = {name: self._batch.runs.get(arrangement(operator, name), ()) for name in names}
        return TimeOrdered(open_blobs(self._batch.blobs), parts, schemas, runs)

    def _due(self, part: Part, due: Due, runs: Sequence[Run], hashes: Hashes) -> pa.Table:
        """The rows of these hashes, and those whose moment has come."""
        low, high = self._writer.low, self._writer.high
        near = [run for run in runs if run.low <= high and run.high >= low]
        rows = load(open_blobs(self._batch.blobs), near, part_schema(part))
        moment = pa.scalar(self._batch.frontier[due.source], rows.schema.field(due.column).type)
        come = pc.fill_null(pc.less_equal(rows[due.column], moment), False).to_numpy()
        found = rows[HASH].to_numpy()
        mine = (low <= found) & (found <= high)
        return rows.filter(pa.array(mine & (come | np.isin(found, hashes))))

    def _due_in_order(self, part: Part, due: Due, name: str) -> pa.Table:
        """The rows whose moment has come since the batch before."""
        schema = part_schema(part)
        if due.source not in self._moved:
            return schema.empty_table()
        before = self._batch.frontier_before.get(due.source)
        after, until = None if before is None else microseconds(before), microseconds(self._batch.frontier[due.source])
        low, high = owned(self._writer.low, self._writer.high)
        firsts, lasts = stretches(low, high, after, until)
        runs = self._batch.runs.get(name, ())
        found = between(open_blobs(self._batch.blobs), runs, firsts, lasts, schema).combine_chunks()
        moments = found[due.column].to_numpy()
        come = moments <= until
        return found.filter(pa.array(come if after is None else come & (after < moments)))

    def _keep(self, operator: StageOperator, part: str, rows: pa.Table) -> None:
        """Adds to a part of an operator's state, and merges its runs where there are many."""
        name, measures = arrangement(operator, part), operator.kernel.parts[part].measures
        kept = operator.kernel.parts[part]
        schema, low, high = part_schema(kept), self._writer.low, self._writer.high
        if kept.due is not None and kept.due.in_order:
            low, high = owned(low, high)
        added = self._writer.add(name, rows.select(schema.names).cast(schema), low, high)
        if added is None:
            return
        self._note.added.append(added)
        if operator.is_view:
            self._note.changes.append(added)
        merged = merge(
            open_blobs(self._batch.blobs), self._writer, self._batch.runs.get(name, ()), measures, schema,
            low=low, high=high,
        )  # fmt: skip
        if merged.removed:
            self._note.merges.append(merged)


def _distinct(hashes: Hashes) -> Hashes:
    """Each hash once, in order."""
    ordered = np.sort(hashes)
    distinct: Hashes = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered
    return distinct


def arrangement(operator: StageOperator, part: str) -> str:
    """What a part of an operator's state is called."""
    return operator.name if operator.is_view else part_of(operator.name, part)


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
    batch = Batch.from_json(json.loads(text))
    # What was merged since the last batch is not looked into again.
    keep_open(open_blobs(batch.blobs), (run for runs in batch.runs.values() for run in runs))
    return batch


def _drain(given: Iterable[pa.RecordBatch]) -> None:
    """Takes what Spark hands in, which is nothing of interest: a worker that leaves some of it is not used again."""
    for _ in given:
        pass


def _task() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _into_file(rows: Iterator[pa.RecordBatch], batch: Batch, schema: pa.Schema) -> str:
    """Puts rows where the next job of the batch finds them. Who loses the file runs the batch again, so no sync."""
    file = f"{batch.number}-{uuid.uuid4().hex}.rows"
    messages = chain([schema.serialize()], (found.serialize() for found in rows))
    open_blobs(batch.blobs).put(file, messages, durable=False)
    return file


def _typed(schema: pa.Schema, batch: pa.RecordBatch) -> pa.Table:
    """What Spark hands in, with the types of the schema: where no null can be in a list, Spark's type says so."""
    return pa.Table.from_batches([batch]).cast(schema)


def _by_route(rows: pa.Table) -> dict[int, pa.Table]:
    """The rows of each route, in their order."""
    routes = rows[ROUTE].to_numpy()
    if not len(routes):
        return {}
    order = np.argsort(routes, kind="stable")
    ordered = rows if bool(np.all(order[:-1] < order[1:])) else rows_at(rows, order)
    present, first = np.unique(routes[order], return_index=True)
    ends = [*first[1:], len(routes)]
    return {
        int(route): ordered.slice(int(start), int(end) - int(start))
        for route, start, end in zip(present, first, ends, strict=True)
    }
