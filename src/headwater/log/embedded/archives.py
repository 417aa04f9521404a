"""The archives of a log: the object stores to which its sealed segments move, and how they are reached."""

from __future__ import annotations

import threading

from headwater.errors import ArchiveUnavailable
from headwater.log.embedded.catalog import Catalog
from headwater.system.objects.opening import open_store
from headwater.system.objects.port import ObjectStore, StoreUrl, parse_store_url
from headwater.system.storage import Storage

MARKER = "headwater-archive"
"""The object that every archive has: a store without it is not the archive, but an empty mount point, for example."""
_MARKED = b"Segments of logs of headwater; the logs' catalogs say which.\n"


class Archives:
    """Opens archives by their locations, and remembers in the catalog with which options."""

    def __init__(self, catalog: Catalog, storage: Storage) -> None:
        self._catalog, self._storage = catalog, storage
        self._lock = threading.Lock()
        self._stores: dict[str, ObjectStore] = {}

    def prepare(self, archive: str) -> None:
        """Makes an archive ready for a topic: writes to it, and reads that back. Raises `ArchiveUnavailable`."""
        url = parse_store_url(archive)
        store = self._open(url)
        store.prepare()
        store.put(MARKER, _MARKED)
        self._check_marker(url.location, store)
        options = str(url)
        with self._catalog.write() as tx:
            tx.execute("INSERT OR REPLACE INTO archives VALUES (?, ?)", (url.location, options))

    def store(self, location: str) -> ObjectStore:
        """The archive at a location; nothing is looked at yet."""
        with self._catalog.read() as tx:
            row = tx.execute("SELECT url FROM archives WHERE location = ?", (location,)).fetchone()
        return self._open(parse_store_url(row[0] if row is not None else location))

    def check(self, location: str) -> None:
        """Raises `ArchiveUnavailable` if what is at the location is not the archive, or does not answer."""
        self._check_marker(location, self.store(location))

    def _open(self, url: StoreUrl) -> ObjectStore:
        with self._lock:
            if str(url) not in self._stores:
                self._stores[str(url)] = open_store(url, self._storage)
            return self._stores[str(url)]

    def _check_marker(self, location: str, store: ObjectStore) -> None:
        try:
            found = store.get(MARKER, 0, len(_MARKED) + 1)
        except FileNotFoundError:
            found = b""
        if found != _MARKED:
            raise ArchiveUnavailable(
                location,
                f"it has no object {MARKER!r}, so it is not the archive",
                "Check that its disk is mounted, and that the bucket and the prefix are the ones that the topic names.",
            )
