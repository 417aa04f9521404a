"""Secrets that an application names instead of containing: they are read when they are used, and never shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from headwater.errors import UsageError


class Secret:
    """A secret in an environment variable or in a file. Its `repr` says where it is, not what it is."""

    def __init__(self, where: str, read: Callable[[], str]) -> None:
        self._where, self._read = where, read

    @classmethod
    def env(cls, name: str) -> Secret:
        """The secret in an environment variable."""
        return cls(f"environment variable {name}", lambda: os.environ.get(name, ""))

    @classmethod
    def file(cls, path: str | Path) -> Secret:
        """The secret in a file, without white space at its ends. It is read again for each connection."""
        return cls(f"file {path}", lambda: Path(path).read_text(encoding="utf-8").strip())

    def __repr__(self) -> str:
        return f"Secret({self._where})"

    def reveal(self) -> str:
        """The secret itself. Raises `UsageError` if it is not there."""
        try:
            found = self._read()
        except (OSError, ValueError):
            found = ""
        if not found:
            raise UsageError(f"There is no secret in the {self._where}.", hint="Set it, and run again.")
        return found


def reveal(value: str | Secret) -> str:
    """The text of a secret, however it was given. Raises `UsageError`."""
    return value.reveal() if isinstance(value, Secret) else value
