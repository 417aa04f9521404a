"""Where captured transactions go: the log, each with the bookmark in one commit, or a staging area without a commit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.place import Place
from headwater.cdc.staging import Staging
from headwater.errors import CaptureOvertaken, InvalidRecords, SchemaError
from headwater.log.commit import Commit
from headwater.log.port import Log

PlaceT = TypeVar("PlaceT", bound=Place)
Rejection = InvalidRecords | SchemaError


class Rows(Protocol):
    """What takes the rows of transactions."""

    def append(self, topic: str, rows: pa.Table, /) -> object:
        """Takes rows of one transaction."""

    def append_each(self, topic: str, rows: pa.Table, numbers: npt.NDArray[np.int64], /, *, commits: int) -> None:
        """Takes rows of several transactions; `numbers` says for each row of which."""


Fill = Callable[[Rows], object]
"""Adds the rows of transactions. It may be called again for the same ones, so it must have no other effect."""


class Target(Protocol[PlaceT]):
    """Takes transactions in the order in which the database committed them."""

    @property
    def place(self) -> PlaceT:
        """Everything that ends here or before is in the target."""
        ...

    def commit(self, fill: Fill, place: PlaceT, committed_at: datetime | None = None) -> None:
        """Takes what `fill` adds, all or nothing, and moves to `place`, the end of its last transaction.

        Raises `CaptureOvertaken` if another capture has moved further, and whatever a rider raises for a conflict.
        """
        ...

    def uncommitted(self, table: int, topic: str) -> Iterator[pa.Table]:
        """Rows of a table that were taken and are not in the log yet, the newest first."""
        ...


class Rider(Protocol):
    """What moves with every commit: what is known of the tables, and of the jobs."""

    def moves(self, commit: Commit, /) -> None:
        """Adds to a commit; called again for every attempt."""

    def committed(self) -> None:
        """The commit has happened."""

    def conflicted(self, bookmark: str, /) -> None:
        """It has not, because another process moved a bookmark. Raises if it must not be tried again."""


class LogTarget(Generic[PlaceT]):
    """The log: every commit carries the bookmark that says how far the database was captured."""

    def __init__(
        self,
        log: Log,
        source: str,
        bookmark: str,
        place: PlaceT,
        riders: Sequence[Rider],
        reject: Callable[[Rejection, PlaceT], None],
    ) -> None:
        """`reject` is told of rows that do not fit their topic, and raises unless they are left out from then on."""
        self._log, self._source, self._bookmark = log, source, bookmark
        self._riders, self._reject = riders, reject
        self._position = log.bookmark(bookmark)
        self._place = place

    @property
    def place(self) -> PlaceT:
        return self._place

    def commit(self, fill: Fill, place: PlaceT, committed_at: datetime | None = None) -> None:
        position = position_of(place, committed_at)
        while not self._try(fill, place, position):
            pass
        for rider in self._riders:
            rider.committed()
        self._place, self._position = place, position

    def uncommitted(self, _table: int, _topic: str) -> Iterator[pa.Table]:
        return iter(())

    def _try(self, fill: Fill, place: PlaceT, position: object) -> bool:
        """Whether the commit has happened; otherwise it can be tried again."""
        try:
            with self._log.commit(on_conflict="return") as commit:
                fill(commit)
                commit.bookmark(self._bookmark, position, expect=self._position)
                for rider in self._riders:
                    rider.moves(commit)
        except (InvalidRecords, SchemaError) as error:
            self._reject(error, place)
            return False
        conflict = commit.conflict
        if conflict is None:
            return True
        if conflict.bookmark == self._bookmark:
            raise CaptureOvertaken(self._source, str(conflict.expected), str(conflict.actual))
        for rider in self._riders:
            rider.conflicted(conflict.bookmark)
        return False


class StagingTarget(Generic[PlaceT]):
    """Files: the rows of transactions, by the place at which parts of tables were read next after them.

    Nothing is committed: a later commit takes, place by place, the changes up to it, and what was read there.
    """

    def __init__(
        self,
        directory: Path,
        place: PlaceT,
        places: Sequence[PlaceT],
        read: Callable[[int, PlaceT], Iterator[pa.Table]],
    ) -> None:
        """`places` are those at which something was read; `read` gives what was read of a table there."""
        self._directory, self._place = directory, place
        self._places, self._read = sorted(set(places)), read
        self.stagings: dict[PlaceT, Staging] = {}

    @property
    def place(self) -> PlaceT:
        return self._place

    def commit(self, fill: Fill, place: PlaceT, _committed_at: datetime | None = None) -> None:
        number = bisect_left(self._places, place)
        following = self._places[number]
        staging = self.stagings.get(following)
        if staging is None:
            staging = self.stagings[following] = Staging(self._directory / f"changes-{number}")
        fill(staging)
        self._place = place

    def uncommitted(self, table: int, topic: str) -> Iterator[pa.Table]:
        for place in reversed(self._places):
            if not self._place < place:
                yield from self._read(table, place)
            if place in self.stagings:
                yield from self.stagings[place].seen(topic)

    def close(self) -> None:
        """Removes the files."""
        for staging in self.stagings.values():
            staging.close()


def position_of(place: Place, committed_at: datetime | None = None) -> dict[str, str]:
    """The bookmark's value: the log has everything up to a place, which was committed then or, if unknown, is now."""
    return {"place": str(place), "at": (committed_at or datetime.now(UTC)).isoformat()}


def place_in(position: Any) -> str | None:
    """The place that a bookmark's value names; None if nothing was captured."""
    return position["place"] if isinstance(position, dict) else None
