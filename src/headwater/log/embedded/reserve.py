"""A reserve on the disk: a file that is given up when the disk is full, so that what makes room has room to do so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from headwater.errors import DiskFull

RESERVE_BYTES = 1 << 20
"""Enough for the catalog to note that segments are gone."""

T = TypeVar("T")


class Reserve:
    """One file of a log, which holds nothing. Upkeep keeps it; it is released when space is needed."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "reserve"

    def keep(self) -> None:
        """Makes the file, unless it is there. A disk that has no room for it gets none."""
        if self._path.exists():
            return
        try:
            self._path.write_bytes(bytes(RESERVE_BYTES))
        except OSError:
            self._give_up()

    def spend(self, action: Callable[[], T]) -> T:
        """Does something that makes room; if there is no room for that, once more without the reserve."""
        try:
            return action()
        except DiskFull:
            self._give_up()
            return action()

    def _give_up(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
