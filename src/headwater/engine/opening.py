"""Opening view stores and blobs by their address: the one place that knows which implementations there are."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.engine.blobs import Blobs
from headwater.engine.embedded.blobs import LocalBlobs
from headwater.engine.embedded.store import EmbeddedViewStore, delete_embedded_state
from headwater.engine.view_store import ViewStore
from headwater.errors import UsageError
from headwater.system.clock import Clock
from headwater.system.storage import Storage


def open_store(
    address: str | Path, *, create: bool = True, storage: Storage | None = None, clock: Clock | None = None
) -> ViewStore:
    """The store at an address: a directory, by its path or as a `file:` URL.

    A driver creates the store if it is missing. With `create=False` it is opened for reading, and may be missing yet.
    Raises `UsageError` for an address that means nothing, and what a store raises.
    """
    return EmbeddedViewStore(_directory(address), create=create, storage=storage, clock=clock)


def open_blobs(address: str | Path, *, storage: Storage | None = None) -> Blobs:
    """The blobs at an address, as `Blobs.address` has it. Raises `UsageError`."""
    return LocalBlobs(_directory(address), storage)


def delete_state(address: str | Path) -> None:
    """Deletes the state of a pipeline, even if its store is damaged or of another version."""
    delete_embedded_state(_directory(address))


def _directory(address: str | Path) -> Path:
    if isinstance(address, Path):
        return address
    parts = urlsplit(address)
    if parts.scheme == "file" and not parts.netloc:
        return Path(unquote(parts.path))
    if "://" in address or parts.scheme == "file":
        raise UsageError(f"{address!r} is not the address of a view store.", hint="Use a path, or file:/path.")
    return Path(address)
