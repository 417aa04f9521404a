"""Opening an object store by its URL: the one place that knows which there are."""

from __future__ import annotations

from pathlib import Path

from headwater.system.objects.directory import DirectoryStore
from headwater.system.objects.port import ObjectStore, StoreUrl
from headwater.system.objects.s3 import S3Store
from headwater.system.storage import Storage


def open_store(url: StoreUrl, storage: Storage) -> ObjectStore:
    """The store; nothing is looked at yet. Files in a directory are written through `storage`."""
    return DirectoryStore(Path(url.path), storage) if url.scheme == "file" else S3Store(url)
