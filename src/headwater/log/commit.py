"""A commit: one atomic addition to the log, and what can come of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import Conflict, RejectedRecord, UsageError
from headwater.log.topic import Topic
from headwater.model.position import Position
from headwater.system.names import check_name

if TYPE_CHECKING:
    from headwater.log.consumer import Consumer
    from headwater.log.port import Rows


class Anything:
    """Stands for 'whatever it is now' where a bookmark's value is expected."""

    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING = Anything()
BOOKMARK_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Committed:
    """It happened, durably. `duplicate` means that it had happened before, by the same producer and sequence.

    `offsets` has the first offset and the end (one past the last) for every topic and partition that got records.
    `dead_letters` counts the records that did not fit and went to a dead-letter topic instead.
    """

    position: Position
    offsets: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    duplicate: bool = False
    dead_letters: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class AppendPosition(Position):
    """The position at which an append is durable, and which of its records did not fit.

    The `rejected` ones are in the topic's dead-letter topic; a topic without one refuses the append instead.
    """

    rejected: tuple[RejectedRecord, ...] = ()


Numbers = npt.NDArray[np.int64]
OnConflict = Literal["raise", "return"]
Outcome = Committed | UsageError
"""What the writer makes of one request; an error concerns this request alone, not the others of its group."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Records for one partition, in their topic's current columns (and `_deleted`, `_headers` where they have any).

    `numbers` says, for a request of many commits, to which of them each record belongs; it never falls. Records without
    them belong to the last. A `dead` piece has dead letters, and in `rejected` what they were made of.
    """

    topic: Topic
    partition: int
    records: pa.Table
    dead: bool = False
    numbers: Numbers | None = None
    rejected: tuple[RejectedRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class BookmarkMove:
    """A bookmark's new value, as JSON, and the value that it must have had, as JSON (None: must not exist)."""

    name: str
    value: str
    expected: str | Anything | None


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """A group's next offset in a partition that one of its members claims."""

    group: str
    member: str
    epoch: int
    topic: Topic
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """Which send of which producer a commit is."""

    producer: str
    epoch: int
    number: int


@dataclass(slots=True)
class Request:
    """What one commit asks the writer for. `mergeable` ones may share a commit number with their neighbours.

    With `commits` above 1 it is this many commits in a row, which become visible together.
    """

    pieces: list[Piece] = field(default_factory=list)
    bookmarks: list[BookmarkMove] = field(default_factory=list)
    offsets: list[OffsetMove] = field(default_factory=list)
    sequence: Sequence | None = None
    mergeable: bool = False
    commits: int = 1
    outcome: Outcome | None = None
    error: BaseException | None = None

    @property
    def dead_letters(self) -> int:
        return sum(piece.records.num_rows for piece in self.pieces if piece.dead)

    @property
    def nbytes(self) -> int:
        return sum(piece.records.nbytes for piece in self.pieces)

    @property
    def is_done(self) -> bool:
        return self.outcome is not None or self.error is not None

    def settle(self) -> Committed:
        """The outcome, once the writer is done with the request. Raises what stands in the way of one."""
        if self.error is not None:
            raise self.error
        assert self.outcome is not None, "the writer left a request undone"
        if isinstance(self.outcome, UsageError):
            raise self.outcome
        return self.outcome


class Prepare(Protocol):
    """Checks rows against their topic and divides them among its partitions."""

    def __call__(
        self,
        topic: str,
        rows: Rows,
        *,
        partition: int | None = None,
        headers: Mapping[str, str] | None = None,
        delete: bool = False,
        numbers: Numbers | None = None,
    ) -> list[Piece]: ...


class Commit:
    """Records, bookmarks and group offsets that become visible together, or not at all.

    Use it as a context manager: the commit happens at the block's end; an exception inside means that nothing does.
    Not safe for use by several threads at once.
    """

    def __init__(
        self,
        prepare: Prepare,
        submit: Callable[[Request], Committed],
        *,
        sequence: Sequence | None = None,
        headers: Mapping[str, str] | None = None,
        mergeable: bool = False,
        on_conflict: OnConflict = "raise",
    ) -> None:
        self._prepare, self._submit = prepare, submit
        self._headers, self._on_conflict = headers, on_conflict
        self._request = Request(sequence=sequence, mergeable=mergeable)
        self._result: Committed | None = None
        self._conflict: Conflict | None = None
        self._moved: list[tuple[Consumer, list[OffsetMove]]] = []
        self._ended = False

    def append(self, topic: str, rows: Rows, *, partition: int | None = None) -> tuple[RejectedRecord, ...]:
        """Adds records; returns those that do not fit and become dead letters. `index` counts the rows of this call.

        Raises `InvalidRecords` at once if one does not fit and the topic has no dead-letter topic.
        """
        self._check_open()
        pieces = self._prepare(topic, rows, partition=partition, headers=self._headers)
        self._request.pieces += pieces
        return rejected_in(pieces)

    def append_each(self, topic: str, rows: pa.Table, numbers: Numbers, *, commits: int) -> None:
        """Adds records that become many commits in a row, with one sync: record i goes to the one `numbers[i]`.

        `numbers` go from 0 to `commits` - 1 and never fall. This is for a source with many small transactions, each of
        which is to be a separate commit. All become durable together; bookmarks and the records that `append` adds move
        with the last one, and `position` is its position. Every call of one commit gives the same `commits`.
        """
        self._check_open()
        self._request.commits = commits
        pieces = self._prepare(topic, rows, headers=self._headers, numbers=numbers)
        if not any(piece.dead for piece in pieces):
            self._request.pieces += pieces
            return
        # Some became dead letters, and say not of which commit: each is prepared for itself.
        for number in np.unique(numbers):
            first, end = np.searchsorted(numbers, [number, number + 1])
            for piece in self._prepare(topic, rows.slice(int(first), int(end - first)), headers=self._headers):
                own = np.full(piece.records.num_rows, number, np.int64)
                rejected = tuple(replace(one, index=one.index + int(first)) for one in piece.rejected)
                self._request.pieces.append(replace(piece, numbers=own, rejected=rejected))

    def delete(self, topic: str, keys: Rows) -> tuple[RejectedRecord, ...]:
        """Adds a tombstone for each key: a row with the topic's key columns. Returns what `append` does."""
        self._check_open()
        pieces = self._prepare(topic, keys, headers=self._headers, delete=True)
        self._request.pieces += pieces
        return rejected_in(pieces)

    def bookmark(self, name: str, value: object, *, expect: object = ANYTHING) -> None:
        """Sets a named value with the commit: a connector's position, or a stream's version.

        With `expect` the commit happens only if the bookmark has that value now (None: if it does not exist); otherwise
        the block raises `Conflict` at its end, or `conflict` has it with `on_conflict="return"`.
        """
        self._check_open()
        check_name("bookmark", name)
        expected = expect if isinstance(expect, Anything) else None if expect is None else _json(name, expect)
        self._request.bookmarks.append(BookmarkMove(name, _json(name, value), expected))

    def offsets(self, consumer: Consumer) -> None:
        """Commits what the consumer has delivered so far, together with everything else in this commit.

        Call it first: if the commit does not happen, for whatever reason, the consumer is rewound and delivers again.
        """
        self._check_open()
        moves = consumer.moves()
        self._request.offsets += moves
        self._moved.append((consumer, moves))

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._ended = True
        try:
            if kind is None:
                self._result = self._submit(self._request)
        except Conflict as conflict:
            self._conflict = conflict
            if self._on_conflict == "raise":
                raise
        finally:
            for consumer, moves in self._moved:
                if self._result is not None:
                    consumer.committed(moves)
                else:
                    consumer.rewind()

    def _check_open(self) -> None:
        if self._ended:
            raise UsageError("This commit has ended.", hint="Begin another one: with log.commit() as commit.")

    @property
    def dead_letters(self) -> int:
        """How many of the records added so far do not fit and go to a dead-letter topic."""
        return self._request.dead_letters

    @property
    def rejected(self) -> tuple[RejectedRecord, ...]:
        """The dead letters' records, in the order in which they were added."""
        return rejected_in(self._request.pieces)

    @property
    def result(self) -> Committed:
        """What was committed, once the block has ended. Raises the `Conflict`, if there was one."""
        if self._conflict is not None:
            raise self._conflict
        if self._result is None:
            raise UsageError("The commit has not ended.", hint="Ask after the with block.")
        return self._result

    @property
    def conflict(self) -> Conflict | None:
        """Which condition did not hold, so that nothing was committed; None if all did."""
        if self._conflict is None and self._result is None:
            raise UsageError("The commit has not ended.", hint="Ask after the with block.")
        return self._conflict

    @property
    def position(self) -> Position:
        """The log's position after this commit. Raises the `Conflict`, if there was one."""
        return self.result.position


def rejected_in(pieces: Iterable[Piece]) -> tuple[RejectedRecord, ...]:
    """What the dead letters among the pieces were made of."""
    return tuple(rejected for piece in pieces for rejected in piece.rejected)


def _json(name: str, value: object) -> str:
    try:
        text = json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"The value of bookmark {name!r} cannot be kept as JSON: {error}.") from error
    if value is None:
        raise UsageError(f"The value of bookmark {name!r} cannot be None, which means that there is no bookmark.")
    if len(text) > BOOKMARK_BYTES_MAX:
        raise UsageError(
            f"The value of bookmark {name!r} has {len(text)} bytes of JSON; {BOOKMARK_BYTES_MAX} are allowed."
        )
    return text
