"""A consumer: one member of a group, reading the partitions that the group's division gives it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Self

from headwater.errors import ExternalError, Fenced, RecordsGone, UnknownTopic, UsageError
from headwater.log.catalog import Wakes
from headwater.log.commit import Committed, OffsetMove, Request
from headwater.log.membership import Claim, Membership
from headwater.log.options import LEASE, OnGone
from headwater.log.reading import FILES_OPEN_MAX, Batch, PartitionReader
from headwater.log.topic import Topic
from headwater.model.durations import Duration, duration_of, seconds_of
from headwater.system.background import Background

RENEWALS_PER_LEASE = 3
_END = 1 << 62
"""After every offset."""
TOPICS_NOTICED_SECONDS = 1.0
"""Within this time, a waiting consumer notices new topics that match its patterns, and changes in its group."""


class Consumer:
    """Iterate over it for batches, and `commit` what you have processed; what was not committed is delivered again.

    A batch holds records of one partition. Partitions move to other members only between batches, and not while
    something delivered from them is uncommitted, unless that lasts longer than a lease. A member that lost uncommitted
    records, because it was thought dead or took too long, gets `Fenced` from its next commit: nothing is committed, and
    it continues from the last commit with what it claims then. Use it from one thread.

    `gone` lists what was deleted before it was read, records by retention and tombstones by compaction, if `on_gone`
    lets the consumer continue.
    """

    def __init__(
        self,
        membership: Membership,
        open_reader: Callable[[Topic, int], PartitionReader],
        submit: Callable[[Request], Committed],
        wake: Wakes,
        *,
        lease: Duration = LEASE,
        on_gone: OnGone = "fail",
        idle_timeout: Duration | None = None,
    ) -> None:
        self._membership, self._open_reader, self._submit, self._wake = membership, open_reader, submit, wake
        self._lease, self._on_gone = seconds_of("lease", lease), on_gone
        self._idle_timeout = None if idle_timeout is None else duration_of("idle_timeout", idle_timeout)
        self._claims: dict[tuple[int, int], Claim] = {}
        self._readers: dict[tuple[int, int], PartitionReader] = {}
        self._next: dict[tuple[int, int], int] = {}
        self._committed: dict[tuple[int, int], int] = {}
        self._lost: list[OffsetMove] = []
        self._turn = 0
        self._version: tuple[int, int] | None = None
        self._changed_at: float | None = None
        self._closing = threading.Event()
        self.gone: list[RecordsGone] = []
        self._told: set[tuple[tuple[int, int], int]] = set()
        self._settle(in_use=())
        self._renewer = Background("lease", self._keep_lease).start()

    @property
    def member(self) -> str:
        return self._membership.member

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """What this member claims now."""
        return [(claim.topic.name, claim.partition) for claim in self._claims.values()]

    def poll(self, timeout: Duration) -> Batch | None:
        """The next batch; None if none came in time. Raises `RecordsGone` unless told to continue from the earliest."""
        until = time.monotonic() + seconds_of("timeout", timeout)
        while True:
            ticket = self._wake.ticket()
            self._tend()
            try:
                batch = self._next_batch()
            except UnknownTopic:
                # Dropped just now. It raises again if this member wants the topic by name.
                self._settle(in_use=self._uncommitted())
                continue
            if batch is not None:
                return batch
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._wake.wait(ticket, min(left, self._lease / RENEWALS_PER_LEASE, TOPICS_NOTICED_SECONDS))

    def commit(self) -> None:
        """Commits everything delivered so far. Raises `Fenced` if a partition went to another member."""
        moves = self.moves()
        if not moves:
            return
        try:
            self._submit(Request(offsets=moves))
        except Fenced:
            self.rewind()
            raise
        self.committed(moves)

    def moves(self) -> list[OffsetMove]:
        """What a commit of everything delivered so far would move, or try in vain to move."""
        return self._lost + [self._move(claim) for claim in self._claims.values() if self._is_uncommitted(claim.place)]

    def committed(self, moves: list[OffsetMove]) -> None:
        """Records moves that were committed, here or together with other things by `Commit.offsets`."""
        for move in moves:
            self._committed[move.topic.id, move.partition] = move.offset

    def rewind(self) -> None:
        """Goes back to the last commit: what was delivered since is delivered again."""
        self._lost.clear()
        # From the catalog: a commit that could not be told to have happened may have.
        self._committed.update(self._membership.offsets())
        self._next.update({place: self._committed[place] for place in self._claims})

    def close(self) -> None:
        """Leaves the group; the others take over at once."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._renewer.stop()
        for reader in self._readers.values():
            reader.close()
        # Where the log is closed already, or cannot be written to, the others take over when the lease ends.
        with suppress(UsageError, ExternalError):
            self._membership.leave()
        self._wake.touch()

    def __iter__(self) -> Iterator[Batch]:
        while not self._closing.is_set():
            batch = self.poll(timedelta(seconds=60) if self._idle_timeout is None else self._idle_timeout)
            if batch is not None:
                yield batch
            elif self._idle_timeout is not None:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _next_batch(self) -> Batch | None:
        places = list(self._claims)
        for step in range(len(places)):
            place = places[(self._turn + step) % len(places)]
            batch = self._read(place)
            if len(places) > FILES_OPEN_MAX:
                self._readers[place].release()
            if batch is not None:
                self._next[place] = batch.next_offset
                self._turn += step + 1
                return batch
        return None

    def _read(self, place: tuple[int, int]) -> Batch | None:
        if place not in self._readers:
            claim = self._claims[place]
            self._readers[place] = self._open_reader(claim.topic, claim.partition)
        try:
            batch = self._readers[place].read(self._next[place])
        except RecordsGone as gone:
            self.gone.append(gone)
            if self._on_gone == "fail":
                raise
            self._next[place] = gone.last + 1
            return self._read(place)
        if self._claims[place].topic.settings.cleanup == "compact":
            self._tell_tombstones(place, _END if batch is None else batch.next_offset, passes=batch is None)
        return batch

    def _tell_tombstones(self, place: tuple[int, int], end: int, *, passes: bool) -> None:
        """Reports tombstones that would have been read next and are not there. `passes` them if nothing comes after."""
        for gone in self._membership.missed(place, self._next[place], end):
            if self._on_gone == "fail":
                self.gone.append(gone)
                raise gone
            if (place, gone.first) not in self._told:
                self._told.add((place, gone.first))
                self.gone.append(gone)
            if passes:
                self._next[place] = gone.last + 1

    def _tend(self) -> None:
        """Takes and gives back partitions when the group's division changed, now or as soon as it may."""
        if self._closing.is_set():
            raise UsageError("The consumer is closed.")
        now = time.monotonic()
        if self._membership.version() != self._version and self._changed_at is None:
            self._changed_at = now
        if self._changed_at is None:
            return
        uncommitted = self._uncommitted()
        if now - self._changed_at > self._lease:
            uncommitted.clear()
        self._settle(in_use=uncommitted)
        if not uncommitted:
            self._changed_at = None

    def _settle(self, in_use: Collection[tuple[int, int]]) -> None:
        claims, version = self._membership.renew(in_use)
        if version != self._version:
            self._wake.touch()
        self._version = version
        self._refresh(claims)

    def _refresh(self, claims: list[Claim]) -> None:
        """Starts at the committed offset wherever a claim is new or was lost in between."""
        known, self._claims = self._claims, {claim.place: claim for claim in claims}
        for place, claim in known.items():
            held = self._claims.get(place)
            dropped = held is None and claim.topic.id not in self._membership.topics
            if self._is_uncommitted(place) and not dropped and (held is None or held.epoch != claim.epoch):
                # Somebody else delivers it again: what was made of it here must not be committed.
                self._lost.append(self._move(claim))
        for place, claim in self._claims.items():
            if place not in known or known[place].epoch != claim.epoch:
                self._next[place] = self._committed[place] = claim.offset
        for place in set(known) - set(self._claims):
            reader = self._readers.pop(place, None)
            if reader is not None:
                reader.close()

    def _keep_lease(self) -> None:
        """Only the lease: partitions change hands in the reading thread, between batches."""
        while not self._closing.wait(self._lease / RENEWALS_PER_LEASE):
            try:
                if self._membership.keep():
                    self._wake.touch()
            except ExternalError:
                # A disk that is full for a while must not end the thread: the next round tries again.
                continue
            except UsageError:
                return

    def _uncommitted(self) -> set[tuple[int, int]]:
        return {place for place in self._claims if self._is_uncommitted(place)}

    def _is_uncommitted(self, place: tuple[int, int]) -> bool:
        return self._next[place] != self._committed[place]

    def _move(self, claim: Claim) -> OffsetMove:
        offset = self._next[claim.place]
        return OffsetMove(self._membership.group, self.member, claim.epoch, claim.topic, claim.partition, offset)
