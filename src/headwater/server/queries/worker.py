"""A process that answers queries one after another, within limits that the kernel enforces.

DuckDB counts the memory of joins, sorts and aggregates, and looks between two pieces of work whether it is interrupted.
It does neither inside a function, so the limits that hold are those of the process: its address space, its processor
time, and the server, which kills it when the time is over.
"""

from __future__ import annotations

import socket
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from headwater.engine.querying import ROWS_AT_ONCE, Answer, QueryLimits, Session
from headwater.engine.reading import WAIT, Reader, Snapshot
from headwater.engine.topic_rows import TopicRows
from headwater.errors import HeadwaterError, InternalError, QueryEnded, QueryOutOfMemory, QueryTooLarge
from headwater.log.opening import open_log
from headwater.log.port import Log
from headwater.model.ddl import format_type
from headwater.model.encoding import json_rows
from headwater.model.position import Position
from headwater.server.failures import error_body, status_of
from headwater.server.queries.allowance import allow_cpu, allow_memory, confine, private_bytes
from headwater.server.queries.messages import LENGTH, READY, Question, Reply, WorkerOptions, decode, framed
from headwater.server.sse import to_json

UNCOUNTED_BYTES = 256 << 20
"""Address space that a query gets beside what DuckDB counts (stacks, the allocator's reserve, rows as Python values),
so that DuckDB's own limit is reached first where DuckDB counts."""
KEPT_BYTES_MAX = 128 << 20
"""Memory that a process may keep after a query; one that keeps more ends, and so gives it back."""


def serve(connection: socket.socket, options: WorkerOptions) -> None:
    """Answers queries until the server closes the connection, or this process has done its share."""
    confine()
    with (
        open_log(options.log, create=False, upkeep=False) as log,
        _BoundedReader(options) as reader,
        Session(_limits(options)) as session,
    ):
        topics = _BoundedTopics(log, options)
        session.warm_up()
        before = private_bytes()
        connection.sendall(READY)
        for number in range(1, options.queries_max + 1):
            question = _receive(connection)
            if question is None:
                return
            reply, body = _replied(session, reader, topics, question, options)
            is_last = (
                session.is_spent
                or reply.limit is not None
                or reply.failure is not None
                or number == options.queries_max
                or private_bytes() - before > KEPT_BYTES_MAX
            )
            _send(connection, reply, body, is_last=is_last)
            del body
            if is_last:
                return


class _BoundedReader(Reader):
    """Reads views within the memory that views may take; everything else is within that of the query."""

    def __init__(self, options: WorkerOptions) -> None:
        super().__init__(options.directory)
        self._options = options

    def read(self, views: Sequence[str], at_least: Position | None = None, timeout: timedelta = WAIT) -> Snapshot:
        if not views:
            return super().read(views, at_least, timeout)
        with _bounded(self._options, self.file_bytes(views)):
            return super().read(views, at_least, timeout)

    def read_at(self, views: Sequence[str], at: Position, timeout: timedelta = WAIT) -> Snapshot:
        with _bounded(self._options, self.earlier_bytes(views, at)):
            return super().read_at(views, at, timeout)


class _BoundedTopics(TopicRows):
    """Reads topics within the memory that views may take."""

    def __init__(self, log: Log, options: WorkerOptions) -> None:
        super().__init__(log)
        self._options = options

    def read(self, name: str, at: Position, system: Sequence[str] = ()) -> pa.Table:
        with _bounded(self._options, 0):
            return super().read(name, at, system)


@contextmanager
def _bounded(options: WorkerOptions, mapped: int) -> Iterator[None]:
    """Lets the block use as much memory as views may take, beside files of this size that are mapped."""
    allow_memory(options.views_bytes_max + UNCOUNTED_BYTES + mapped)
    try:
        yield
    except MemoryError as error:
        raise QueryOutOfMemory(options.views_bytes_max, limit="query_views_bytes_max") from error
    finally:
        allow_memory(_query_bytes(options))


def _limits(options: WorkerOptions) -> QueryLimits:
    return QueryLimits(
        timedelta(seconds=options.seconds_max), options.answer_bytes_max, options.memory_bytes_max, options.threads_max
    )


def _query_bytes(options: WorkerOptions) -> int:
    # The answer is there as Arrow, and as the text that is made of it.
    return options.memory_bytes_max + UNCOUNTED_BYTES + 2 * options.answer_bytes_max


def _replied(
    session: Session, reader: Reader, topics: TopicRows, question: Question, options: WorkerOptions
) -> tuple[Reply, list[bytes]]:
    """The answer to a query, or what is wrong with it."""
    try:
        with _allowed(options):
            at_least = None if question.at_least is None else Position.parse(question.at_least)
            answer = session.query(
                reader, question.sql, topics=topics, at_least=at_least, timeout=timedelta(0), rows=question.rows_max
            )
            body = list(_body(answer, options.answer_bytes_max))
        return Reply(200, sum(map(len, body)), str(answer.position)), body
    except MemoryError:
        return _failed(QueryOutOfMemory(options.memory_bytes_max))
    except HeadwaterError as error:
        return _failed(error)
    except Exception:  # noqa: BLE001 - told to the server, which writes it down
        return _failed(InternalError("unexpected"), traceback.format_exc())


@contextmanager
def _allowed(options: WorkerOptions) -> Iterator[None]:
    allow_cpu(options.cpu_seconds_max)
    allow_memory(_query_bytes(options))
    try:
        yield
    finally:
        allow_memory(None)


def _failed(error: HeadwaterError, failure: str | None = None) -> tuple[Reply, list[bytes]]:
    if isinstance(error, InternalError) and failure is None:
        failure = "".join(traceback.format_exception(error))
    body = to_json(error_body(error)).encode()
    limit = error.limit if isinstance(error, QueryEnded) else None
    return Reply(status_of(error), len(body), limit=limit, failure=failure), [body]


def _body(answer: Answer, bytes_max: int) -> Iterator[bytes]:
    """The answer as JSON, in pieces. Raises `QueryTooLarge`."""
    size = 0
    for piece in _pieces(answer):
        size += len(piece)
        if size > bytes_max:
            raise QueryTooLarge(bytes_max)
        yield piece


def _pieces(answer: Answer) -> Iterator[bytes]:
    columns = [{"name": field.name, "type": format_type(field.type)} for field in answer.table.schema]
    yield f'{{"position":{to_json(str(answer.position))},"columns":{to_json(columns)},"rows":['.encode()
    comma = ""
    for batch in answer.table.to_batches(max_chunksize=ROWS_AT_ONCE):
        if batch.num_rows:
            rows = to_json(list(json_rows(pa.Table.from_batches([batch]))))
            yield f"{comma}{rows[1:-1]}".encode()
            comma = ","
    yield f'],"cut":{to_json(answer.cut)}}}'.encode()


def _receive(connection: socket.socket) -> Question | None:
    """The next query, None if there is no more."""
    length = _exactly(connection, LENGTH.size)
    content = length and _exactly(connection, LENGTH.unpack(length)[0])
    return Question(**decode(content)) if content else None


def _exactly(connection: socket.socket, size: int) -> bytes:
    """This many bytes; none if the other side has closed the connection."""
    content = bytearray()
    while len(content) < size:
        piece = connection.recv(size - len(content))
        if not piece:
            return b""
        content += piece
    return bytes(content)


def _send(connection: socket.socket, reply: Reply, body: Sequence[bytes], *, is_last: bool) -> None:
    connection.sendall(framed(replace(reply, is_last=is_last)))
    for piece in body:
        connection.sendall(piece)
