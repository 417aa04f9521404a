"""The parts of a log with a catalog, the database that holds what is true of it, as ports."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.log.reading import Batch
from headwater.log.topic import Topic

if TYPE_CHECKING:
    # Who only needs the port does not load SQLite.
    from headwater.system.sqlite import Connection


class Catalog(Protocol):
    """Topics, bookmarks, groups and where each commit's records are, in SQL tables; see `embedded.catalog.TABLES`."""

    def read(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the log, with everything acknowledged before it began."""

    def write(self) -> AbstractContextManager[Connection]:
        """A transaction that alone may write, in all processes. An exception undoes it."""

    def position(self) -> int:
        """The number of the last commit."""

    def committed_at(self) -> int:
        """When the last commit happened: no later one has an earlier time."""

    def compacted_commit(self, topic: Topic) -> int:
        """The last commit of whose records compaction may have removed some; 0 if there is none."""

    @property
    def identity(self) -> str:
        """Tells this catalog from another one that took its place."""


class Tails(Protocol):
    """Where records are written. All calls happen within `Catalog.write`, whose end makes them visible."""

    def append(
        self, tx: Connection, topic: Topic, partition: int, tables: Sequence[pa.Table], commit: int, at: int
    ) -> tuple[int, int]:
        """Writes the records of one commit to a partition; the first offset and the end."""

    def append_each(
        self, tx: Connection, topic: Topic, partition: int, table: pa.Table, commits: npt.NDArray[np.int64], at: int
    ) -> tuple[int, int]:
        """As `append`, for records of many commits: record i belongs to `commits[i]`, which never falls."""

    def sync(self) -> None:
        """Returns when everything appended since the last call is durable."""

    def committed(self) -> None:
        """What was appended is visible now."""

    def abandon(self) -> None:
        """What was appended does not exist."""


class Wakes(Protocol):
    """How followers learn of a commit, in any process."""

    def touch(self) -> None:
        """Wakes every follower of this log."""

    def ticket(self) -> int:
        """Take one, look at the catalog, then wait with it: no commit in between is missed."""

    def wait(self, ticket: int, seconds: float) -> None:
        """Returns when something was committed after the ticket was taken, perhaps earlier, or after this time."""


class Reader(Protocol):
    """Reads one partition of one topic, from one thread."""

    topic: Topic
    partition: int

    def read(self, offset: int, *, until_commit: int | None = None, until_offset: int | None = None) -> Batch | None:
        """The next records from the offset on, up to a commit (included) and an offset (not included).

        None when there is none. Raises `RecordsGone` if retention deleted them, `Corrupt` if they are damaged.
        """

    def seek(self, column: str, value: int) -> int:
        """The first offset whose `_commit` is greater than the value, or whose `_received_at` is not less than it."""

    def first(self) -> int:
        """The first offset that is kept."""

    def empty(self) -> pa.Table:
        """No records, in the columns that this reader gives."""

    def release(self) -> None:
        """Gives back files and connections until the next read."""

    def close(self) -> None:
        """Ends reading."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class OpenReader(Protocol):
    """Opens a reader of a partition; with `columns`, of these only."""

    def __call__(self, topic: Topic, partition: int, columns: Sequence[str] | None = None, /) -> Reader: ...
