"""A producer: many small sends, gathered into a few commits, with a policy for when it is ahead of the disk."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Self, get_args

from headwater.errors import UsageError
from headwater.log.acknowledgement import Acknowledgement
from headwater.log.commit import Sequence
from headwater.log.dispatch import Dispatcher, Outbox, Send
from headwater.log.options import Policy
from headwater.model.durations import Duration, seconds_of
from headwater.model.position import Position

LINGER = timedelta(milliseconds=1)
BUFFER_RECORDS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """What became of everything that was sent: `sent` = `acknowledged` + `failed` + `dropped` + `waiting`.

    `rejected` counts the acknowledged records that did not fit and went to the topic's dead-letter topic.
    """

    sent: int
    acknowledged: int
    rejected: int
    failed: int
    dropped: int
    waiting: int


class Producer:
    """Returns a future per record that resolves to a position once the record is durable. Any thread may send.

    When `buffer_records_max` records wait for the disk, the policy decides: `block` the caller (default), `error`,
    `drop_newest` (the one being sent) or `drop_oldest` (the one waiting longest). Drops are counted, and the dropped
    record's future says so. The position of a record that did not fit and became a dead letter says so in `rejected`.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        topic: str | None = None,
        name: str | None = None,
        epoch: int = 0,
        sequence: int = 0,
        linger: Duration = LINGER,
        buffer_records_max: int = BUFFER_RECORDS_MAX,
        policy: Policy = "block",
    ) -> None:
        if policy not in get_args(Policy):
            raise UsageError(f"{policy!r} is not a policy.", hint=f"Use one of {', '.join(get_args(Policy))}.")
        if buffer_records_max < 1:
            raise UsageError(f"buffer_records_max must be at least 1, not {buffer_records_max}.")
        self.name, self.epoch = name, epoch
        self._topic, self._linger = topic, seconds_of("linger", linger)
        self._dispatcher = dispatcher
        last = None if name is None else Sequence(name, epoch, sequence)
        self._outbox = Outbox(records_max=buffer_records_max, policy=policy, last=last)

    def send(self, row: Mapping[str, object], *, topic: str | None = None) -> Future[Position]:
        """Hands over one record. Raises `BufferFull` with the policy `error`."""
        name = topic or self._topic
        if name is None:
            raise UsageError("No topic to send to.", hint="Name it in producer(topic=…) or in send(…, topic=…).")
        send = Send(name, row, time.monotonic() + self._linger, Acknowledgement())
        self._dispatcher.put(self._outbox, send)
        return send.done

    def flush(self) -> None:
        """Returns when everything sent so far is durable, dropped or failed."""
        self._dispatcher.flush(self._outbox)

    def stats(self) -> ProducerStats:
        box = self._outbox
        waiting = len(box.waiting) + box.flying
        done = box.acknowledged + box.failed + box.dropped
        return ProducerStats(done + waiting, box.acknowledged, box.rejected, box.failed, box.dropped, waiting)

    def next_sequence(self) -> int:
        """The number of this producer's next send: one more than the log has seen, from any holder of the name."""
        return 1 if self._outbox.last is None else self._outbox.last.number + 1

    def sequence(self, number: int) -> Sequence:
        """Which send of this producer a commit is. Raises `UsageError` for a producer without a name."""
        if self.name is None:
            raise UsageError("Only a named producer numbers its sends.", hint="Open it with producer(name=…).")
        if number < 1:
            raise UsageError(f"Sends are numbered from 1 on, not {number}.", hint="next_sequence() gives the next one.")
        return Sequence(self.name, self.epoch, number)

    def close(self) -> None:
        """Flushes; nothing can be sent after that."""
        self._dispatcher.close_outbox(self._outbox)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
