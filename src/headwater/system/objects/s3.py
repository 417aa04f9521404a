"""Objects in S3, or in any store that speaks its protocol, through pyarrow."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from headwater.errors import ArchiveUnavailable
from headwater.system.objects.port import ObjectInfo, ObjectStore, StoreUrl

CONNECT_SECONDS_MAX = 5.0
REQUEST_SECONDS_MAX = 30.0
"""How long a request may take, besides the time for its bytes."""
BYTES_PER_SECOND_MIN = 1 << 20
"""A slower transfer is given up."""
ATTEMPTS_MAX = 3
WHOLE_BYTES_MAX = 256 << 20
"""The time for reading an object at once is that for this many bytes."""
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""What the environment may say of the endpoint, if the URL does not."""

T = TypeVar("T")

_AWS_ERROR = re.compile(r"AWS Error (\w+)(?: during \w+ operation)?:? ?(.*)", re.DOTALL)
_CREDENTIALS = (
    "Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of the "
    "machine); they need to read, write and delete objects below the prefix."
)
_HINTS = (
    ("NO_SUCH_BUCKET|bucket does not exist", "Create the bucket, or correct its name in the topic's archive."),
    (
        "ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN|INVALID_SIGNATURE|SIGNATURE_DOES|MISSING_AUTHENTICATION",
        _CREDENTIALS,
    ),
)
_HINT = (
    "Check the endpoint, the network, and that there are credentials in the environment (AWS_ACCESS_KEY_ID, "
    "AWS_SECRET_ACCESS_KEY). What is stored here can be read and appended to meanwhile."
)


class S3Store(ObjectStore):
    """See `ObjectStore` for the contract. Credentials come from the environment; they are neither kept nor shown."""

    def __init__(self, url: StoreUrl) -> None:
        self._location, self._path = url.location, url.path
        options = dict(url.options)
        named = next((os.environ[name] for name in ENDPOINT_VARIABLES if os.environ.get(name)), "")
        endpoint = urlsplit(options.get("endpoint_override", named))
        if endpoint.netloc:
            options |= {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme}
        self._options = options
        self._system: fs.S3FileSystem | None = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Nothing has to be there but the bucket, and that is not ours to make."""

    def put(self, name: str, content: bytes) -> None:
        def act(system: fs.S3FileSystem) -> None:
            with system.open_output_stream(self._key(name)) as stream:
                stream.write(content)

        self._within(len(content), act)

    def get(self, name: str, begin: int, end: int) -> bytes:
        def act(system: fs.S3FileSystem) -> bytes:
            with system.open_input_file(self._key(name)) as file:
                # Not behind its end: stores answer that in different ways.
                stop = min(end, file.size())
                return bytes(file.read_at(stop - begin, begin)) if stop > begin else b""

        return self._within(end - begin, act)

    def get_all(self, name: str) -> bytes:
        def act(system: fs.S3FileSystem) -> bytes:
            with system.open_input_file(self._key(name)) as file:
                return bytes(file.readall())

        return self._within(WHOLE_BYTES_MAX, act)

    def size(self, name: str) -> int | None:
        def act(system: fs.S3FileSystem) -> list[int]:
            info = system.get_file_info(self._key(name))
            return [info.size] if info.type == fs.FileType.File else []

        return next(iter(self._within(0, act)), None)

    def list(self) -> list[ObjectInfo]:
        def act(system: fs.S3FileSystem) -> list[fs.FileInfo]:
            return list(system.get_file_info(fs.FileSelector(self._path, recursive=True, allow_not_found=True)))

        return [
            ObjectInfo(info.path.removeprefix(f"{self._path}/"), info.size, info.mtime_ns // 1000)
            for info in self._within(0, act)
            if info.type == fs.FileType.File
        ]

    def remove(self, name: str) -> None:
        def act(system: fs.S3FileSystem) -> None:
            try:
                system.delete_file(self._key(name))
            except FileNotFoundError:
                return

        self._within(0, act)

    def _key(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _within(self, size: int, act: Callable[[fs.S3FileSystem], T]) -> T:
        """Does something in as much time as it may take. pyarrow cannot end a request that is never answered."""
        seconds = REQUEST_SECONDS_MAX + size / BYTES_PER_SECOND_MIN
        outcome: list[T] = []
        failure: list[Exception] = []

        def run() -> None:
            try:
                outcome.append(act(self._opened()))
            except (OSError, pa.ArrowException) as error:
                failure.append(error)

        thread = threading.Thread(target=run, name="headwater-archive-request", daemon=True)
        thread.start()
        thread.join(seconds)
        if failure:
            raise self._error(failure[0]) from failure[0]
        if not outcome:
            raise ArchiveUnavailable(self._location, f"no answer within {seconds:.0f} s", _HINT)
        return outcome[0]

    def _opened(self) -> fs.S3FileSystem:
        with self._lock:
            if self._system is None:
                self._system = fs.S3FileSystem(
                    connect_timeout=CONNECT_SECONDS_MAX,
                    request_timeout=REQUEST_SECONDS_MAX,
                    retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX),
                    **self._options,
                )
            return self._system

    def _error(self, error: Exception) -> Exception:
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(f"{self._location} has no such object")
        text = str(error)
        hint = next((hint for pattern, hint in _HINTS if re.search(pattern, text)), _HINT)
        return ArchiveUnavailable(self._location, _reason(text), hint)


def _reason(text: str) -> str:
    """What the store said, without what the driver says around it."""
    found = _AWS_ERROR.search(text)
    if found is None:
        return (text.rpartition(": ")[2].strip() or text).rstrip(".")
    code, said = found.groups()
    first = said.partition(";")[0].partition("\n")[0].strip().rstrip(".")
    return f"{code.replace('_', ' ').lower()} ({first})" if first else code.replace("_", " ").lower()
