"""Dispatch: one thread per open log that turns the sends of all its producers into commits."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from headwater.errors import BufferFull, Indeterminate, InvalidRecords, RejectedRecord, UsageError
from headwater.log.commit import AppendPosition, Committed, Prepare, Request, Sequence, rejected_in
from headwater.log.options import Policy
from headwater.model.position import Position
from headwater.system.background import Background

ROUND_RECORDS_MAX = 5_000


@dataclass(slots=True)
class Send:
    """One record on its way. It may wait for others until it is `due`."""

    topic: str
    row: Mapping[str, object]
    due: float
    done: Future[Position]


@dataclass(slots=True, eq=False)
class Outbox:
    """What one producer has sent and what became of it. `last` is a named producer's last numbered send."""

    records_max: int
    policy: Policy
    last: Sequence | None = None
    waiting: deque[Send] = field(default_factory=deque)
    flying: int = 0
    acknowledged: int = 0
    rejected: int = 0
    failed: int = 0
    dropped: int = 0
    closed: bool = False
    doubt: Indeterminate | None = None

    @property
    def is_full(self) -> bool:
        return len(self.waiting) + self.flying >= self.records_max


@dataclass(slots=True)
class _Parcel:
    """The sends of one round that become one request, and whose they are; those that become dead letters, by number."""

    sends: list[tuple[Outbox, Send]]
    request: Request
    rejected: dict[int, RejectedRecord] = field(default_factory=dict)


class Dispatcher:
    """Gathers while a commit is under way, so that the busier the disk is, the more records share an fsync."""

    def __init__(self, prepare: Prepare, submit: Callable[[list[Request]], None]) -> None:
        self._prepare, self._submit = prepare, submit
        self._state = threading.Condition()
        self._busy: dict[Outbox, None] = {}
        self._count = 0
        self._flushing = 0
        self._closed, self._pid = False, os.getpid()
        self._thread: Background | None = None

    def put(self, box: Outbox, send: Send) -> None:
        """Queues the send, or does what the outbox's policy says when that is full."""
        self._check_process()
        with self._state:
            if box.closed or self._closed:
                raise UsageError("The producer is closed.")
            if box.is_full and not self._make_room(box, send):
                return
            box.waiting.append(send)
            self._busy[box] = None
            self._count += 1
            if self._thread is None:
                self._thread = Background("producer", self._run).start()
            elif self._count in {1, ROUND_RECORDS_MAX}:
                self._state.notify_all()

    def flush(self, box: Outbox) -> None:
        """Returns when nothing of the outbox is under way any more."""
        self._check_process()
        with self._state:
            self._flushing += 1
            self._state.notify_all()
            self._state.wait_for(lambda: not box.waiting and not box.flying)
            self._flushing -= 1

    def close_outbox(self, box: Outbox) -> None:
        """Flushes it, and takes nothing more."""
        self._check_process()
        with self._state:
            box.closed = True
            self._state.notify_all()
        self.flush(box)

    def close(self) -> None:
        """Sends what is waiting, then ends the thread."""
        with self._state:
            self._closed = True
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise UsageError("The producer was opened by the parent process.", hint="Open the log again in this one.")

    def _make_room(self, box: Outbox, send: Send) -> bool:
        """Whether the send may be queued now. Holds the lock."""
        if box.policy == "error":
            raise BufferFull(box.records_max, box.policy)
        if box.policy == "block":
            self._state.wait_for(lambda: not box.is_full or box.closed or self._closed)
            if box.closed or self._closed:
                raise UsageError("The producer is closed.")
            return True
        victim = send
        if box.policy == "drop_oldest" and box.waiting:
            victim = box.waiting.popleft()
            self._count -= 1
        box.dropped += 1
        victim.done.set_exception(BufferFull(box.records_max, box.policy))
        return victim is not send

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._count or self._closed)
                if not self._count:
                    return
                self._gather()
                taken = self._take()
            try:
                self._dispatch(taken)
            except Exception as error:
                # Nobody may wait for a send that nobody looks after any more.
                _fail([(box, send) for box, sends in taken for send in sends if not send.done.done()], error)
                raise
            finally:
                with self._state:
                    for box, sends in taken:
                        box.flying -= len(sends)
                    self._state.notify_all()

    def _gather(self) -> None:
        """Waits until the first send is due, or there are enough. Holds the lock."""
        while self._count < ROUND_RECORDS_MAX and not (self._flushing or self._closed):
            left = min(box.waiting[0].due for box in self._busy) - time.monotonic()
            if left <= 0 or any(box.is_full for box in self._busy):
                return
            self._state.wait(left)

    def _take(self) -> list[tuple[Outbox, list[Send]]]:
        """A fair share of what every outbox has waiting. Holds the lock."""
        share = max(1, ROUND_RECORDS_MAX // len(self._busy))
        taken = []
        for box in list(self._busy):
            sends = [box.waiting.popleft() for _ in range(min(share, len(box.waiting)))]
            box.flying += len(sends)
            self._count -= len(sends)
            taken.append((box, sends))
            if not box.waiting:
                del self._busy[box]
        return taken

    def _dispatch(self, taken: list[tuple[Outbox, list[Send]]]) -> None:
        together = [(box, send) for box, sends in taken if box.last is None for send in sends]
        parcels = [self._parcel(together)]
        parcels += [self._parcel([(box, send) for send in sends]) for box, sends in taken if box.last is not None]
        parcels = [parcel for parcel in parcels if parcel.sends]
        self._submit([parcel.request for parcel in parcels])
        for parcel in parcels:
            self._settle(parcel)

    def _parcel(self, sends: list[tuple[Outbox, Send]]) -> _Parcel:
        """The records that can be written, as one request; the others are told why not."""
        by_topic: dict[str, list[tuple[Outbox, Send]]] = {}
        for pair in sends:
            by_topic.setdefault(pair[1].topic, []).append(pair)
        parcel = _Parcel([], Request(mergeable=True))
        for topic, pairs in by_topic.items():
            try:
                self._add(parcel, topic, pairs)
            except Exception as error:  # noqa: BLE001 (the futures carry it)
                _fail(pairs, error)
        box = parcel.sends[0][0] if parcel.sends else None
        if box is not None and box.last is not None:
            parcel.request.sequence = replace(box.last, number=box.last.number + 1)
        if box is not None and box.doubt is not None:
            _fail(parcel.sends, box.doubt)
            parcel.sends = []
        return parcel

    def _add(self, parcel: _Parcel, topic: str, pairs: list[tuple[Outbox, Send]]) -> None:
        try:
            pieces = self._prepare(topic, [send.row for _, send in pairs])
        except InvalidRecords as error:
            bad = {rejected.index: rejected for rejected in error.rejected}
            for index, rejected in bad.items():
                _fail([pairs[index]], InvalidRecords(topic, [rejected]))
            pairs = [pair for index, pair in enumerate(pairs) if index not in bad]
            pieces = self._prepare(topic, [send.row for _, send in pairs]) if pairs else []
        parcel.rejected |= {len(parcel.sends) + rejected.index: rejected for rejected in rejected_in(pieces)}
        parcel.request.pieces += pieces
        parcel.sends += pairs

    def _settle(self, parcel: _Parcel) -> None:
        box = parcel.sends[0][0]
        try:
            result = parcel.request.settle()
        except Exception as error:  # noqa: BLE001 (the futures carry it)
            if isinstance(error, Indeterminate) and box.last is not None:
                # Its number may be used up: a later send under the same number could pass for this one and be lost.
                box.doubt = error
            _fail(parcel.sends, error)
            return
        assert isinstance(result, Committed)
        assert not result.duplicate, "a sequence number was used twice"
        if box.last is not None:
            box.last = parcel.request.sequence
        for number, (sender, send) in enumerate(parcel.sends):
            sender.acknowledged += 1
            rejected = parcel.rejected.get(number)
            if rejected is None:
                send.done.set_result(result.position)
            else:
                sender.rejected += 1
                send.done.set_result(AppendPosition(result.position.counters, (replace(rejected, index=0),)))


def _fail(pairs: list[tuple[Outbox, Send]], error: Exception) -> None:
    for box, send in pairs:
        box.failed += 1
        send.done.set_exception(error)
