"""What an object store is, and how its URL is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from headwater.errors import UsageError

S3_OPTIONS = ("endpoint_override", "region", "scheme")
"""What the query of an `s3:` URL may say."""

_HINT = "Use a path, file:///path, or s3://bucket/prefix?endpoint_override=http://host:9000&region=eu-central-1."


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object that is there. `written_at` is in microseconds."""

    name: str
    size: int
    written_at: int


class ObjectStore(ABC):
    """Bytes under names that are written once and never changed. Names are relative paths with `/`.

    Every method raises `ArchiveUnavailable` if the store does not answer, refuses, or takes too long.
    """

    @abstractmethod
    def prepare(self) -> None:
        """Makes what `put` needs to be there, once, before the store is used for the first time."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Keeps the content under the name; it is durable when this returns."""

    @abstractmethod
    def get(self, name: str, begin: int, end: int) -> bytes:
        """Bytes `begin` to `end` (not included), or fewer if there are fewer. Raises `FileNotFoundError`."""

    @abstractmethod
    def get_all(self, name: str) -> bytes:
        """All bytes of an object. Raises `FileNotFoundError`."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """How many bytes it has; None if it is not there."""

    @abstractmethod
    def list(self) -> list[ObjectInfo]:
        """The objects that are there."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes the object, if it is there."""


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A parsed URL: `location` is where the objects are, `options` how to get there (host, region)."""

    scheme: Literal["file", "s3"]
    path: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def location(self) -> str:
        return Path(self.path).as_uri() if self.scheme == "file" else f"s3://{quote(self.path)}"

    def __str__(self) -> str:
        return self.location + (f"?{urlencode(self.options, safe=':/')}" if self.options else "")


def parse_store_url(text: object, what: str = "an archive") -> StoreUrl:
    """The store that a path or a URL names; `what` is kept there.

    Raises `UsageError`, whose message never shows a secret.
    """
    if isinstance(text, Path):
        return StoreUrl("file", str(text.absolute()))
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{what.capitalize()} is a path or a URL, not {text!r}.", hint=_HINT)
    scheme, colon, rest = text.partition(":")
    if not colon or (not rest.startswith("//") and scheme not in ("file", "s3")):
        return StoreUrl("file", str(Path(text).absolute()))
    parts = urlsplit(text)
    if scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
            raise UsageError(f"The URL of {what} in a directory is not valid.", hint="Write file:///path.")
        return StoreUrl("file", str(Path(unquote(parts.path))))
    if scheme != "s3":
        raise UsageError(f"Unknown scheme {scheme!r} in the URL of {what}.", hint=_HINT)
    if "@" in parts.netloc:
        raise UsageError(
            f"The URL of {what} has credentials in it.",
            hint="Put them into the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    path = "/".join(part for part in (unquote(parts.netloc), *unquote(parts.path).split("/")) if part)
    if not parts.netloc or parts.fragment:
        raise UsageError(f"The URL of {what} in S3 needs a bucket.", hint=_HINT)
    options = tuple(sorted(parse_qsl(parts.query)))
    for name, _ in options:
        if name not in S3_OPTIONS:
            raise UsageError(
                f"The URL of {what} has no option {name!r}.",
                hint=f"Options: {', '.join(S3_OPTIONS)}. Credentials come from the environment only.",
            )
    return StoreUrl("s3", path, options)
