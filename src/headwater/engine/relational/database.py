"""The database port: the tables of a view store, and the transactions in which they are read and changed.

A statement is written once, for every database: with question marks for values, and with nothing that only one of them
understands. `json_extract(text, '$[5]')` is the one function that SQLite has and others must be given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

FORMAT = 6
"""The format of the tables and of what is in them."""

BUSY_SECONDS_MAX = 30.0
"""A transaction that writes waits for others for so long."""

TABLES = (
    "generations", "runs", "published", "changes", "forgotten", "excluded", "judged", "followers", "homes", "bases",
    "base_runs",
)  # fmt: skip
"""The tables of generations, beside the single row of `pipeline`."""

_SCHEMA = """
CREATE TABLE pipeline (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    epoch BIGINT NOT NULL,
    collected_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);
CREATE TABLE generations (
    id {identity},
    fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('building', 'current', 'retired')),
    batch BIGINT NOT NULL,
    position TEXT NOT NULL,
    promoted_batch BIGINT,
    promoted_position TEXT,
    created_at BIGINT NOT NULL,
    retired_at BIGINT,
    stripped INTEGER NOT NULL DEFAULT 0,
    is_former INTEGER NOT NULL DEFAULT 0,
    wish TEXT
);
CREATE UNIQUE INDEX one_current_generation ON generations (status) WHERE status = 'current';
CREATE TABLE runs (
    generation BIGINT NOT NULL,
    arrangement TEXT NOT NULL,
    file TEXT NOT NULL,
    section BIGINT NOT NULL,
    low BIGINT NOT NULL,
    high BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (generation, arrangement, file, section, low)
) {keyed};
CREATE TABLE bases (
    generation BIGINT NOT NULL,
    batch BIGINT NOT NULL,
    position TEXT NOT NULL,
    offsets TEXT NOT NULL,
    taken_at BIGINT NOT NULL,
    judged TEXT NOT NULL,
    PRIMARY KEY (generation, batch)
) {keyed};
CREATE TABLE base_runs (
    generation BIGINT NOT NULL,
    batch BIGINT NOT NULL,
    arrangement TEXT NOT NULL,
    file TEXT NOT NULL,
    section BIGINT NOT NULL,
    low BIGINT NOT NULL,
    high BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (generation, batch, arrangement, file, section, low)
) {keyed};
CREATE TABLE published (
    generation BIGINT NOT NULL,
    batch BIGINT NOT NULL,
    position TEXT NOT NULL,
    published_at BIGINT NOT NULL,
    stats TEXT NOT NULL,
    PRIMARY KEY (generation, batch)
) {keyed};
CREATE TABLE changes (
    generation BIGINT NOT NULL,
    view TEXT NOT NULL,
    batch BIGINT NOT NULL,
    number BIGINT NOT NULL,
    position TEXT NOT NULL,
    run TEXT NOT NULL,
    file TEXT NOT NULL,
    first_position TEXT,
    PRIMARY KEY (generation, view, batch, number)
) {keyed};
CREATE TABLE followers (
    name TEXT NOT NULL,
    view TEXT NOT NULL,
    generation BIGINT NOT NULL,
    low BIGINT NOT NULL,
    high BIGINT NOT NULL,
    PRIMARY KEY (name, generation)
) {keyed};
CREATE TABLE forgotten (
    generation BIGINT NOT NULL,
    view TEXT NOT NULL,
    batch BIGINT NOT NULL,
    position TEXT NOT NULL,
    PRIMARY KEY (generation, view)
) {keyed};
CREATE TABLE homes (
    generation BIGINT NOT NULL,
    view TEXT NOT NULL,
    home BIGINT NOT NULL,
    PRIMARY KEY (generation, view)
) {keyed};
CREATE TABLE excluded (
    generation BIGINT NOT NULL,
    view TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition BIGINT NOT NULL,
    "offset" BIGINT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (generation, view, topic, partition, "offset")
) {keyed};
CREATE TABLE judged (
    generation BIGINT NOT NULL,
    topic TEXT NOT NULL,
    judged TEXT NOT NULL,
    PRIMARY KEY (generation, topic)
) {keyed};
INSERT INTO pipeline VALUES (1, {format}, 0, 0, 1);
"""


class Rows(Protocol):
    """What a statement has found."""

    def fetchone(self) -> Any:
        """The next row as a tuple, None behind the last."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Transaction(Protocol):
    """The statements of one transaction."""

    def execute(self, statement: str, values: Sequence[object] = ..., /) -> Rows:
        """Runs a statement, each question mark in it being one of the values."""

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> object:
        """Runs a statement with the values of each row."""

    def changes(self) -> int:
        """How many rows the last statement has changed."""


class Database(ABC):
    """The tables of one store, which are there. Any thread may use it."""

    @abstractmethod
    def write(self) -> AbstractContextManager[Transaction]:
        """A transaction that alone may write. It commits at the block's end, durably; an exception undoes all of it.

        If it has changed something, the store's `version` counts up. Raises `StoreBusy`, `StoreUnavailable`,
        `StoreUnusable`, `DiskFull` and `TooManyOpenFiles`, after which nothing has changed, and `Indeterminate`.
        """

    @abstractmethod
    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state of the store, however many statements it runs: that when it begins."""

    @abstractmethod
    def version(self) -> int:
        """As `ViewStore.version`."""

    @abstractmethod
    def close(self) -> None:
        """Closes everything that is open. Any later use raises `UsageError`."""


class Waker(Protocol):
    """How those who wait learn of a commit, in any process."""

    def touch(self) -> None:
        """After a commit: wakes everybody. If that fails, they look for themselves within a second."""

    def ticket(self) -> int:
        """As `ViewStore.ticket`."""

    def wait(self, ticket: int, seconds: float) -> None:
        """As `ViewStore.wait`."""

    def close(self) -> None: ...


def schema(identity: str, keyed: str = "") -> str:
    """The statements that make the tables, of a store in which nothing is.

    `identity` declares a primary key that counts up and gives no number twice; `keyed` is an option of tables that are
    only found by their primary key.
    """
    return _SCHEMA.format(identity=identity, keyed=keyed, format=FORMAT)
