"""Opening a log by its address: the one place that knows which logs there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.errors import UsageError
from headwater.log.embedded.catalog import Durability
from headwater.log.embedded.directory import has_log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.port import Log


@dataclass(frozen=True, slots=True)
class Opening:
    """How logs are opened while an application is loaded.

    A relative path is relative to `base`, or else to the current directory. Without `creates` no log is created, and no
    upkeep is done; a log in the `stand_in` directory takes the place of one that is missing. The log in the directory
    `instead` takes the place of every log, whatever its address.
    """

    base: Path | None = None
    creates: bool = True
    stand_in: Path | None = None
    instead: Path | None = None

    def may_write(self, directory: Path) -> bool:
        """Whether topics may be created in the log of a directory."""
        return self.creates or directory == self.stand_in

    def place(self, address: str | os.PathLike[str]) -> Path:
        """Where the log with this path is. Raises `UsageError` if it is missing and may not be created."""
        if self.instead is not None:
            return self.instead
        path = Path(address) if self.base is None else self.base / address
        if self.creates or has_log(path):
            return path
        if self.stand_in is not None:
            return self.stand_in
        raise UsageError(f"There is no log at {path} yet.", hint="Start the application with `headwater run`.")


_opening: ContextVar[Opening | None] = ContextVar("opening", default=None)


def opening() -> Opening:
    """How logs are opened at the moment."""
    return _opening.get() or Opening()


@contextmanager
def opened_as(how: Opening) -> Iterator[None]:
    """Within the block, `open_log` opens logs in this way."""
    before = _opening.set(how)
    try:
        yield
    finally:
        _opening.reset(before)


def open_log(
    address: str | os.PathLike[str],
    *,
    create: bool = True,
    durability: Durability = "fsync",
    upkeep: bool = True,
) -> Log:
    """Opens the log at a path, a `file:` or a `kafka:` URL, or creates it there. Raises `UsageError` for another URL.

    `durability="os"` leaves it to the operating system when bytes reach the disk: faster, and a power cut may lose or
    damage the newest commits; a killed process loses nothing. `upkeep=False` leaves sealing, retention and compaction
    to other processes.
    """
    scheme, colon, rest = str(address).partition(":")
    if opening().instead is not None:
        return _open_directory(address, create, durability, upkeep)
    if not isinstance(address, str) or not colon or not (scheme in _OPENERS or rest.startswith("//")):
        return _open_directory(address, create, durability, upkeep)
    opener = _OPENERS.get(scheme)
    if opener is None:
        raise UsageError(
            f"Unknown scheme {scheme!r} in the address of a log: {address}",
            hint=f"Use a path, or a URL with one of these schemes: {', '.join(sorted(_OPENERS))}.",
        )
    return opener(address, create, durability, upkeep)


def _open_file(url: str, create: bool, durability: Durability, upkeep: bool) -> Log:  # noqa: FBT001
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path or parts.query or parts.fragment:
        raise UsageError(f"{url!r} is not the URL of a directory.", hint="Write it as file:///path/to/the/log.")
    return _open_directory(Path(unquote(parts.path)), create, durability, upkeep)


def _open_directory(
    address: str | os.PathLike[str],
    create: bool,  # noqa: FBT001
    durability: Durability,
    upkeep: bool,  # noqa: FBT001
) -> Log:
    how = opening()
    place = how.place(address)
    return EmbeddedLog(place, create=create, durability=durability, upkeep=upkeep and how.creates)


def _open_kafka(url: str, create: bool, durability: Durability, upkeep: bool) -> Log:  # noqa: FBT001
    if durability != "fsync":
        raise UsageError(
            f"A log on Kafka has no durability {durability!r}.",
            hint="How many brokers have a record before it is acknowledged is a setting of Kafka: min.insync.replicas.",
        )
    try:
        # The driver is an extra, and loaded only by those who use it.
        kafka = import_module("headwater.log.kafka.log")
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise UsageError(
            "A log on Kafka needs confluent-kafka.", hint="Install it: pip install 'headwater[kafka]'."
        ) from error
    how = opening()
    try:
        log: Log = kafka.open_kafka(
            url, how.base or Path(), create=create and how.creates, upkeep=upkeep and how.creates
        )
    except UsageError:
        if how.creates or how.stand_in is None:
            raise
        return EmbeddedLog(how.stand_in, create=create, durability=durability, upkeep=False)
    return log


_OPENERS: dict[str, Callable[[str, bool, Durability, bool], Log]] = {"file": _open_file, "kafka": _open_kafka}
