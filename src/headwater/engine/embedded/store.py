"""The view store in a local directory: a SQLite database for what is true, and blobs, usually in a folder beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from headwater.engine.blobs import Blobs
from headwater.engine.embedded.blobs import LocalBlobs
from headwater.engine.embedded.database import FILES, NAME, SqliteDatabase, is_prepared
from headwater.engine.relational.store import RelationalViewStore
from headwater.errors import StoreOutdated, StoreUnusable
from headwater.system.clock import Clock
from headwater.system.storage import Storage, storage_error
from headwater.system.wake import Wake

RUNS = "runs"
"""The folder of blobs inside a store's directory."""


class EmbeddedViewStore(RelationalViewStore):
    """The store in a directory. With `create` it is made if it is missing, and all of its pages are checked.

    `address` names it with its `blobs`, if these are elsewhere.
    """

    def __init__(
        self,
        directory: Path,
        *,
        create: bool = True,
        blobs: Blobs | None = None,
        address: str | None = None,
        storage: Storage | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._directory, self._storage = Path(directory), storage or Storage()
        self._address = address if blobs is not None and address is not None else str(self._directory)
        self._folder = self._directory if blobs is not None else self._directory / RUNS
        blobs = blobs or LocalBlobs(self._folder, self._storage)
        super().__init__(self._directory.name, blobs, is_driver=create, clock=clock)

    @property
    def address(self) -> str:
        return self._address

    def _create_database(self) -> SqliteDatabase:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._storage.sync_directory(self._directory)
        except OSError as error:
            raise storage_error(error, self._directory) from error
        database = SqliteDatabase(self._directory, self._storage)
        try:
            database.check()
        except BaseException:
            database.close()
            raise
        return database

    def _find_database(self) -> SqliteDatabase | None:
        if not is_prepared(self._directory / NAME):
            return None
        return SqliteDatabase(self._directory, self._storage, create=False)

    def _open_waker(self) -> Wake:
        self._directory.mkdir(parents=True, exist_ok=True)
        return Wake(self._directory / "wake")


def delete_embedded_state(directory: Path, blobs: Blobs | None = None) -> None:
    """Deletes the state in a directory, even if its store is damaged or of another version."""
    try:
        with EmbeddedViewStore(directory, blobs=blobs) as store:
            store.delete_state()
    except (StoreUnusable, StoreOutdated) as error:
        if isinstance(error, StoreUnusable) and not error.damaged:
            raise
        for name in FILES:
            (directory / name).unlink(missing_ok=True)
        shutil.rmtree(directory / RUNS, ignore_errors=True)
        if blobs is not None:
            for blob in list(blobs.list()):
                blobs.delete(blob.name)
