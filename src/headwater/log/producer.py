"""A producer: many small sends, gathered into few commits, with a named answer when it is ahead of the disk."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Self, get_args

from headwater.errors import BufferFull, Indeterminate, InvalidRecords, UsageError
from headwater.log.commit import Committed, Conflict, Piece, Prepare, Request, Sequence
from headwater.log.options import Policy
from headwater.model.position import Position

LINGER = timedelta(milliseconds=1)
BUFFER_RECORDS_MAX = 10_000
BATCH_RECORDS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """What became of everything that was sent: `sent` = `acknowledged` + `failed` + `dropped` + `waiting`."""

    sent: int
    acknowledged: int
    failed: int
    dropped: int
    waiting: int


@dataclass(slots=True)
class _Send:
    topic: str
    row: Mapping[str, object]
    done: Future[Position]


class Producer:
    """Returns a future per record that resolves to a position once the record is durable. Any thread may send.

    When `buffer_records_max` records wait for the disk, the policy decides: `block` the caller (default), `error`,
    `drop_newest` (the one being sent) or `drop_oldest` (the one waiting longest). Drops are counted, and the dropped
    record's future says so.
    """

    def __init__(
        self,
        prepare: Prepare,
        submit: Callable[[Request], Committed | Conflict],
        *,
        topic: str | None = None,
        name: str | None = None,
        epoch: int = 0,
        sequence: int = 0,
        linger: timedelta = LINGER,
        buffer_records_max: int = BUFFER_RECORDS_MAX,
        policy: Policy = "block",
    ) -> None:
        if policy not in get_args(Policy):
            raise UsageError(f"{policy!r} is not a policy.", hint=f"Use one of {', '.join(get_args(Policy))}.")
        if buffer_records_max < 1:
            raise UsageError(f"buffer_records_max must be at least 1, not {buffer_records_max}.")
        self.name, self.epoch = name, epoch
        self._prepare, self._submit = prepare, submit
        self._topic, self._sequence = topic, sequence
        self._linger, self._records_max, self._policy = linger.total_seconds(), buffer_records_max, policy
        self._waiting: deque[_Send] = deque()
        self._flying = 0
        self._state = threading.Condition()
        self._acknowledged = self._failed = self._dropped = 0
        self._urgent = self._closed = False
        self._doubt: Indeterminate | None = None
        self._thread: threading.Thread | None = None

    def send(self, row: Mapping[str, object], *, topic: str | None = None) -> Future[Position]:
        """Hands over one record. Raises `BufferFull` with the policy `error`."""
        name = topic or self._topic
        if name is None:
            raise UsageError("No topic to send to.", hint="Name it in producer(topic=…) or in send(…, topic=…).")
        send = _Send(name, row, Future())
        with self._state:
            if self._closed:
                raise UsageError("The producer is closed.")
            if len(self._waiting) + self._flying >= self._records_max and not self._make_room(send):
                return send.done
            self._waiting.append(send)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headwater-producer", daemon=True)
                self._thread.start()
            elif len(self._waiting) == 1:
                self._state.notify_all()
        return send.done

    def flush(self) -> None:
        """Returns when everything sent so far is durable, dropped or failed."""
        with self._state:
            self._urgent = True
            self._state.notify_all()
            self._state.wait_for(lambda: not self._waiting and not self._flying)
            self._urgent = False

    def stats(self) -> ProducerStats:
        with self._state:
            waiting = len(self._waiting) + self._flying
            done = self._acknowledged + self._failed + self._dropped
            return ProducerStats(done + waiting, self._acknowledged, self._failed, self._dropped, waiting)

    def next_sequence(self) -> int:
        """The number of this producer's next send: one more than the log has seen, whoever held the name before."""
        return self._sequence + 1

    def sequence(self, number: int) -> Sequence:
        """Which send of this producer a commit is. Raises `UsageError` for a producer without a name."""
        if self.name is None:
            raise UsageError("Only a named producer numbers its sends.", hint="Open it with producer(name=…).")
        return Sequence(self.name, self.epoch, number)

    def close(self) -> None:
        """Flushes, then ends."""
        self.flush()
        with self._state:
            self._closed = True
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _make_room(self, send: _Send) -> bool:
        """Whether the record may be queued now. Holds the lock."""
        if self._policy == "error":
            raise BufferFull(self._records_max, self._policy)
        if self._policy == "block":
            self._state.wait_for(lambda: len(self._waiting) + self._flying < self._records_max or self._closed)
            if self._closed:
                raise UsageError("The producer is closed.")
            return True
        oldest = self._waiting.popleft() if self._policy == "drop_oldest" and self._waiting else send
        self._dropped += 1
        oldest.done.set_exception(BufferFull(self._records_max, self._policy))
        return oldest is not send

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                self._gather()
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_RECORDS_MAX))]
                self._flying = len(batch)
            try:
                self._commit(batch)
            finally:
                with self._state:
                    self._flying = 0
                    self._state.notify_all()

    def _gather(self) -> None:
        """Waits for more records, for as long as a record may linger. Holds the lock."""
        until = time.monotonic() + self._linger
        while not (self._urgent or self._closed) and len(self._waiting) < min(BATCH_RECORDS_MAX, self._records_max):
            left = until - time.monotonic()
            if left <= 0:
                return
            self._state.wait(left)

    def _commit(self, batch: list[_Send]) -> None:
        request, batch = self._request(batch)
        if not batch:
            return
        try:
            position = self._submit_once(request)
        except Exception as error:  # noqa: BLE001 (the futures carry it)
            self._fail(batch, error)
            return
        with self._state:
            self._acknowledged += len(batch)
        for send in batch:
            send.done.set_result(position)

    def _submit_once(self, request: Request) -> Position:
        if self._doubt is not None:
            raise self._doubt
        if self.name is not None:
            request.sequence = self.sequence(self._sequence + 1)
        try:
            result = self._submit(request)
        except Indeterminate as error:
            # Its number may be used up: a later batch under the same number could pass for this one and be lost.
            self._doubt = error if self.name is not None else None
            raise
        assert isinstance(result, Committed)
        assert not result.duplicate, "a sequence number was used twice"
        self._sequence += 1
        return result.position

    def _request(self, batch: list[_Send]) -> tuple[Request, list[_Send]]:
        """The records that can be written, as one request; the others are told why not."""
        by_topic: dict[str, list[_Send]] = {}
        for send in batch:
            by_topic.setdefault(send.topic, []).append(send)
        pieces: list[Piece] = []
        good: list[_Send] = []
        for topic, sends in by_topic.items():
            fitting = sends
            try:
                pieces += self._prepare(topic, [send.row for send in sends])
            except InvalidRecords as error:
                bad = {rejected.index: rejected for rejected in error.rejected}
                fitting = [send for index, send in enumerate(sends) if index not in bad]
                for index, rejected in bad.items():
                    self._fail([sends[index]], InvalidRecords(topic, [rejected]))
                if fitting:
                    pieces += self._prepare(topic, [send.row for send in fitting])
            except Exception as error:  # noqa: BLE001 (the futures carry it)
                self._fail(sends, error)
                continue
            good += fitting
        return Request(pieces=pieces, mergeable=True), good

    def _fail(self, sends: list[_Send], error: Exception) -> None:
        with self._state:
            self._failed += len(sends)
        for send in sends:
            send.done.set_exception(error)
