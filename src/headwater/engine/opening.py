"""Opening view stores and blobs by their address: the one place that knows which implementations there are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from headwater.engine.blobs import Blobs
from headwater.engine.embedded.blobs import LocalBlobs
from headwater.engine.embedded.store import EmbeddedViewStore, delete_embedded_state
from headwater.engine.objects.blobs import ObjectBlobs, open_objects
from headwater.engine.view_store import ViewStore
from headwater.engine.whereabouts import found_elsewhere
from headwater.errors import UsageError
from headwater.system.clock import Clock
from headwater.system.storage import Storage

if TYPE_CHECKING:
    from headwater.engine.postgres.address import PostgresAddress

_POSTGRES = ("postgresql", "postgres")
_HINT = "Use a path, file:/path, or postgresql://host/database."


@dataclass(frozen=True, slots=True)
class _Directory:
    """A store in a directory, and where its blobs are if they are elsewhere."""

    path: Path
    state: str | None = None
    address: str | None = None


def open_store(
    address: str | Path, *, create: bool = True, storage: Storage | None = None, clock: Clock | None = None
) -> ViewStore:
    """The store at an address: a directory, by its path or as a `file:` URL, or a schema in PostgreSQL.

    A directory may say that the store is elsewhere.

    A driver creates the store if it is missing. With `create=False` it is opened for reading, and may be missing yet.
    Raises `UsageError` for an address that means nothing, and what a store raises.
    """
    found = _parsed(address)
    if isinstance(found, _Directory):
        blobs = None if found.state is None else _opened_blobs(found.state, create=create)
        return EmbeddedViewStore(
            found.path, create=create, blobs=blobs, address=found.address, storage=storage, clock=clock
        )
    made: ViewStore = import_module("headwater.engine.postgres.store").PostgresViewStore(
        found, _opened_blobs(found.state, create=create), create=create, clock=clock
    )
    return made


def open_blobs(address: str | Path, *, storage: Storage | None = None) -> Blobs:
    """The blobs at an address, as `Blobs.address` has it: a directory, or objects in S3. Raises `UsageError`."""
    if isinstance(address, str) and address.startswith("s3:"):
        return _objects(address, os.getpid())
    return LocalBlobs(_directory(address), storage)


def delete_state(address: str | Path) -> None:
    """Deletes the state of a pipeline, even if its store is damaged or of another version."""
    found = _parsed(address)
    if isinstance(found, _Directory):
        delete_embedded_state(found.path, None if found.state is None else _opened_blobs(found.state, create=True))
    else:
        store = import_module("headwater.engine.postgres.store")
        store.delete_postgres_state(found, _opened_blobs(found.state, create=True))


@lru_cache(maxsize=16)
def _objects(address: str, _pid: int) -> ObjectBlobs:
    # A client of an object store takes a while to make, and does not outlive a fork: each process has its own.
    return open_objects(address)


def _parsed(address: str | Path) -> _Directory | PostgresAddress:
    if isinstance(address, str) and urlsplit(address).scheme in _POSTGRES:
        # Its driver takes a while to load, and only they need it who use it.
        found: PostgresAddress = import_module("headwater.engine.postgres.address").parse_address(address)
        return found
    if isinstance(address, str) and address.startswith("file:"):
        given = dict(parse_qsl(urlsplit(address).query))
        if given.keys() - {"state"}:
            raise UsageError(f"{address!r} is not the address of a view store.", hint=_HINT)
        if "state" in given:
            return _Directory(_directory(address), given["state"], address)
    directory = _directory(address)
    elsewhere = found_elsewhere(directory)
    return _Directory(directory) if elsewhere is None else _parsed(elsewhere)


def check_address(address: str) -> None:
    """Raises `UsageError` if an address of a store means nothing. Nothing is opened."""
    found = _parsed(address)
    if found.state is not None:
        open_blobs(found.state)


def _opened_blobs(address: str, *, create: bool) -> Blobs:
    blobs = open_blobs(address)
    if create and isinstance(blobs, LocalBlobs):
        _directory(address).mkdir(parents=True, exist_ok=True)
    return blobs


def _directory(address: str | Path) -> Path:
    if isinstance(address, Path):
        return address
    parts = urlsplit(address)
    if parts.scheme == "file" and not parts.netloc:
        return Path(unquote(parts.path))
    if "://" in address or parts.scheme == "file":
        raise UsageError(f"{address!r} is not the address of a view store.", hint=_HINT)
    return Path(address)
