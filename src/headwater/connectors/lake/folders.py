"""Folders of files, in a local directory or in S3, through pyarrow."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from headwater.connectors.lake.table import DataFile
from headwater.errors import UsageError
from headwater.system.objects.port import StoreUrl, parse_store_url
from headwater.system.objects.s3 import ATTEMPTS_MAX, CONNECT_SECONDS_MAX, ENDPOINT_VARIABLES, REQUEST_SECONDS_MAX
from headwater.system.storage import Storage

COMPRESSION = "zstd"
_HINT = "Use a path, file:///path, or s3://bucket/prefix?endpoint_override=http://host:9000&region=eu-central-1."


def folder_url(place: str | Path) -> StoreUrl:
    """The place that a user named. Raises `UsageError`, whose message never shows a secret."""
    try:
        return parse_store_url(place)
    except UsageError as error:
        message = error.message.replace("URL of an archive", "URL of a target").replace("An archive", "A target")
        raise UsageError(message, hint=error.hint or _HINT) from None


def s3_options(url: StoreUrl) -> dict[str, str]:
    """How S3 is reached: `endpoint_override` with its scheme, and `region`. The environment may name an endpoint."""
    options = dict(url.options)
    named = next((os.environ[name] for name in ENDPOINT_VARIABLES if os.environ.get(name)), "")
    endpoint = options.get("endpoint_override", named)
    if urlsplit(endpoint).netloc:
        options["endpoint_override"] = endpoint
    return options


class Folder:
    """The files below a URL. What is written is durable when a method returns."""

    def __init__(self, url: StoreUrl) -> None:
        self.url, self.is_local = url, url.scheme == "file"
        self._system: fs.FileSystem | None = fs.LocalFileSystem() if self.is_local else None

    def path(self, name: str) -> str:
        """The path of a file for `system`."""
        return f"{self.url.path}/{name}"

    @property
    def system(self) -> fs.FileSystem:
        if self._system is None:
            options = s3_options(self.url)
            endpoint = urlsplit(options.get("endpoint_override", ""))
            if endpoint.netloc:
                options |= {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme}
            self._system = fs.S3FileSystem(
                connect_timeout=CONNECT_SECONDS_MAX,
                request_timeout=REQUEST_SECONDS_MAX,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX),
                **options,
            )
        return self._system

    def prepare(self) -> None:
        """Makes the local directory; a bucket has to be there."""
        if self.is_local:
            Path(self.url.path).mkdir(parents=True, exist_ok=True)

    def write(self, name: str, rows: pa.Table) -> DataFile:
        """A new Parquet file. Its name ends up unique, so that a file is never written over."""
        path = f"{name}-{uuid.uuid4().hex[:12]}.parquet"
        if self.is_local:
            with Path(self.path(path)).open("xb") as file:
                pq.write_table(rows, file, compression=COMPRESSION)
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            Storage().sync_directory(Path(self.path(path)).parent)
        else:
            pq.write_table(rows, self.path(path), filesystem=self.system, compression=COMPRESSION)
            size = self.system.get_file_info(self.path(path)).size
        return DataFile(path, rows.num_rows, size)

    def read(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a Parquet file, without what Parquet's own metadata add to their schema."""
        with pq.ParquetFile(self.path(name), filesystem=self.system) as file:
            found = file.read(columns=None if columns is None else list(columns))
        return found.replace_schema_metadata(None)

    def get(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        try:
            with self.system.open_input_stream(self.path(name)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def swap(self, name: str, content: bytes) -> None:
        """Replaces a file atomically: a reader gets either all of the old content or all of this."""
        if not self.is_local:
            with self.system.open_output_stream(self.path(name)) as stream:
                stream.write(content)
            return
        path = Path(self.path(name))
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        Storage().sync_directory(path.parent)

    def files(self) -> dict[str, datetime]:
        """The files and when they were written. Directories below are not looked into."""
        found = self.system.get_file_info(fs.FileSelector(self.url.path, allow_not_found=True))
        return {info.base_name: info.mtime or datetime.now(UTC) for info in found if info.type == fs.FileType.File}

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        with suppress(FileNotFoundError):
            self.system.delete_file(self.path(name))
