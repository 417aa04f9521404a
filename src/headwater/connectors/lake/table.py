"""The port of tables made of Parquet files: what a format has to do so that a view can be kept in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa


class Moved(Exception):
    """Another writer has committed to the table meanwhile, so nothing was committed."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the table. Files never change. `entry` is whatever the format keeps for it."""

    path: str
    rows: int
    size: int
    entry: Any = None


@dataclass(frozen=True, slots=True)
class Version:
    """The table as one reader sees it.

    `owner` is the sink that the table belongs to, None if that is no sink at all. `stamp` is that of the sink's last
    delivery, None if there is none, and `number` counts the deliveries. `base` is whatever the format needs to find
    out, on commit, that there are later versions.
    """

    number: int
    stamp: str | None
    owner: str | None
    schema: pa.Schema | None
    files: tuple[DataFile, ...]
    base: Any = None


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit does to the table: the files, and what it keeps of the delivery."""

    owner: str
    stamp: str
    number: int
    added: Sequence[DataFile]
    removed: Sequence[DataFile]


class LakeTable(ABC):
    """A table of one format. Every method may raise `TargetFailed`; `OSError` becomes one."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the table is, without any secret."""

    @abstractmethod
    def fitted(self, schema: pa.Schema) -> pa.Schema:
        """The types that columns have in the table. Raises `TargetFailed` for a type that it cannot hold losslessly."""

    @abstractmethod
    def load(self, owner: str) -> Version | None:
        """The latest version; None if there is no table. `owner` is the sink that asks for its own position."""

    @abstractmethod
    def create(self, schema: pa.Schema, owner: str) -> Version:
        """Makes the missing table, empty, for a sink. Raises `Moved`."""

    @abstractmethod
    def begin(self, version: Version, schema: pa.Schema | None) -> None:
        """Begins a commit on top of a version, which changes the columns to `schema` unless that is None."""

    @abstractmethod
    def write(self, rows: pa.Table, position: str) -> Sequence[DataFile]:
        """Writes rows into a file, which belongs to the table as soon as a commit adds it."""

    @abstractmethod
    def read(self, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file, or some of their columns."""

    @abstractmethod
    def commit(self, change: Change) -> None:
        """Commits what was begun, all of it at once. Raises `Moved`, and has then done nothing."""

    @abstractmethod
    def clean(self, before: datetime) -> None:
        """Removes what only versions before an instant need, and the files of commits that were broken off."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what was opened."""
