"""A folder of Parquet files as a table: a manifest, which is swapped atomically, says which files belong to it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pat

from headwater.connectors.lake.folders import Folder, folder_url
from headwater.connectors.lake.table import Change, DataFile, LakeTable, Moved, Version
from headwater.errors import LogBusy, ReadOnly, TargetFailed
from headwater.model.encoding import format_instant
from headwater.system.lock import FileLock

MANIFEST = "manifest.json"
LOCK = ".headwater.lock"
FORMAT = 1
_LOCK_SECONDS_MAX = 30.0
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


class ParquetTable(LakeTable):
    """The files that `manifest.json` lists. Older versions of it are gone once it is swapped; their files stay a while.

    Two writers of a local folder exclude each other with a lock. In S3 the manifest is compared before it is swapped.
    """

    def __init__(self, place: str | Path) -> None:
        self._folder = Folder(folder_url(place))
        self._begun: tuple[Version, pa.Schema | None] | None = None

    @property
    def address(self) -> str:
        return self._folder.url.location

    def fitted(self, schema: pa.Schema) -> pa.Schema:
        for field in schema:
            if pat.is_interval(field.type) or pat.is_null(field.type):
                raise TargetFailed(f"Parquet has no type for column {field.name!r}, a {field.type}", "refused")
        return schema

    def load(self, owner: str) -> Version | None:
        content = self._folder.get(MANIFEST)
        return None if content is None else _version(content, self.address)

    def create(self, schema: pa.Schema, owner: str) -> Version:
        self._folder.prepare()
        strange = [name for name in self._folder.files() if name.endswith(".parquet") and not _is_named_by_us(name)]
        files = tuple(DataFile(name, 1, 0) for name in strange)
        return Version(0, None, None if files else owner, schema, files)

    def begin(self, version: Version, schema: pa.Schema | None) -> None:
        self._begun = version, schema

    def write(self, rows: pa.Table, position: str) -> Sequence[DataFile]:
        return [self._folder.write(f"at-{_UNSAFE.sub('-', position)}", rows)]

    def read(self, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
        return self._folder.read(file.path, columns)

    def commit(self, change: Change) -> None:
        assert self._begun is not None, "it was begun"
        version, schema = self._begun
        gone = {file.path for file in change.removed}
        files = [file for file in version.files if file.path not in gone] + list(change.added)
        now = format_instant(datetime.now(UTC))
        removed = [*(version.base or []), *({"path": path, "at": now} for path in sorted(gone))]
        after = replace(version, number=change.number, stamp=change.stamp, owner=change.owner, files=tuple(files))
        after = replace(after, schema=schema or version.schema, base=removed)
        with self._alone():
            held = self.load(change.owner)
            if (held.number if held is not None else 0) != version.number:
                raise Moved
            self._folder.swap(MANIFEST, _manifest(after))

    def clean(self, before: datetime) -> None:
        with self._alone():
            content = self._folder.get(MANIFEST)
            if content is None:
                return
            version = _version(content, self.address)
            listed = {file.path for file in version.files}
            waiting = [each for each in version.base if datetime.fromisoformat(each["at"]) >= before]
            kept = listed | {each["path"] for each in waiting}
            known = {each["path"] for each in version.base}
            for name, written_at in self._folder.files().items():
                if _is_named_by_us(name) and name not in kept and (name in known or written_at < before):
                    self._folder.remove(name)
            if len(waiting) < len(version.base):
                self._folder.swap(MANIFEST, _manifest(replace(version, base=waiting)))

    def close(self) -> None:
        """Nothing stays open."""

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._folder.is_local:
            yield
            return
        # Opened each time: the folder may have been removed and made again.
        lock = FileLock(Path(self._folder.path(LOCK)))
        try:
            with lock.hold(_LOCK_SECONDS_MAX):
                yield
        except (LogBusy, ReadOnly) as error:
            raise TargetFailed(f"{self.address} cannot be locked: {error.message.rstrip('.')}") from error
        finally:
            lock.close()


def _is_named_by_us(name: str) -> bool:
    return name.startswith("at-") and name.endswith(".parquet")


def _manifest(version: Version) -> bytes:
    """The manifest: `files` for readers, and what the sink needs."""
    assert version.schema is not None, "a table has columns"
    held = {
        "format": FORMAT,
        "files": [file.path for file in version.files],
        "rows": sum(file.rows for file in version.files),
        "owner": version.owner,
        "number": version.number,
        "stamp": version.stamp,
        "details": [{"path": file.path, "rows": file.rows, "size": file.size} for file in version.files],
        "removed": version.base,
        "schema": base64.b64encode(version.schema.serialize().to_pybytes()).decode(),
    }
    return json.dumps(held, indent=1).encode()


def _version(content: bytes, address: str) -> Version:
    try:
        held = json.loads(content)
        if held["format"] != FORMAT:
            raise TargetFailed(f"The manifest of {address} was written by a later version of headwater", "refused")
        files = tuple(DataFile(each["path"], each["rows"], each["size"]) for each in held["details"])
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(held["schema"])))
        return Version(held["number"], held["stamp"] or None, held["owner"], schema, files, held["removed"])
    except (ValueError, KeyError, TypeError) as error:
        raise TargetFailed(f"The manifest of {address} cannot be read: {error}", "refused") from error
