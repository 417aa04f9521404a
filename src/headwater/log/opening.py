"""Opening a log by its address: the one place that knows which logs there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.errors import UsageError
from headwater.log.embedded.catalog import Durability
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.port import Log


def open_log(
    address: str | os.PathLike[str],
    *,
    create: bool = True,
    durability: Durability = "fsync",
    upkeep: bool = True,
) -> Log:
    """Opens the log at a path or a `file:` URL, or creates it there. Raises `UsageError` for any other URL.

    `durability="os"` leaves it to the operating system when bytes reach the disk: faster, and a power cut may lose or
    damage the newest commits; a killed process loses nothing. `upkeep=False` leaves sealing, retention and compaction
    to other processes.
    """
    scheme, colon, rest = str(address).partition(":")
    if not isinstance(address, str) or not colon or not (scheme in _OPENERS or rest.startswith("//")):
        return EmbeddedLog(address, create=create, durability=durability, upkeep=upkeep)
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
    return EmbeddedLog(Path(unquote(parts.path)), create=create, durability=durability, upkeep=upkeep)


_OPENERS: dict[str, Callable[[str, bool, Durability, bool], Log]] = {"file": _open_file}
