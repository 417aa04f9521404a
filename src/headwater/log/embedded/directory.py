"""The directory of a log: where one may be made, and making it so that its name lasts."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import UsageError
from headwater.log.embedded.catalog import WITNESS
from headwater.system.storage import Storage, storage_error


def has_log(directory: Path) -> bool:
    """Whether there is a log in a directory."""
    return (directory / "catalog.db").exists()


def check_directory(directory: Path, storage: Storage, *, create: bool) -> None:
    """Makes the directory if it may be made. Raises `UsageError` if there is no log, and none may be made, in it."""
    if has_log(directory):
        return
    if not create:
        raise UsageError(f"There is no log in {directory}.", hint="Create one with `headwater log init`.")
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file, not a directory.")
    locks = {"write.lock", "write.queue", "upkeep.lock", "upkeep.queue", WITNESS}
    # The catalog itself is among them: another process may be making this log at the moment.
    catalog = {"catalog.db", "catalog.db-journal", "catalog.db-wal", "catalog.db-shm"}
    ours = catalog | {"wake", "topics"} | locks
    if directory.exists() and {path.name for path in directory.iterdir()} - ours:
        raise UsageError(
            f"{directory} contains other files, but no log.",
            hint="Name an empty directory, or one that does not exist.",
        )
    _make_directory(directory, storage)


def _make_directory(directory: Path, storage: Storage) -> None:
    """Makes the log's directory and those above it, and returns when their names are on the disk."""
    try:
        for missing in [path for path in reversed([directory, *directory.parents]) if not path.exists()]:
            storage.make_directory(missing)
            storage.sync_directory(missing.parent)
        # The process that made it may have died before its name was on the disk.
        storage.sync_directory(directory.parent)
    except OSError as error:
        raise storage_error(error, directory) from error
