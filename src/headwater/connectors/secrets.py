"""Secrets of targets: taken from the environment or from files, so that no application file has to hold them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote

from headwater.errors import UsageError

_NAMED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def expanded(text: str) -> str:
    """A text with the variables of the environment that it names: `${NAME}`. Raises `UsageError`, without any value."""
    return _NAMED.sub(lambda found: _value(found[1]), text)


def expanded_url(url: str) -> str:
    """As `expanded`, for a URL: a value that is a part of it is quoted, so that it may have any characters."""
    if _NAMED.fullmatch(url):
        return expanded(url)
    return _NAMED.sub(lambda found: quote(_value(found[1]), safe=""), url)


def password_in(file: str | os.PathLike[str]) -> str:
    """The password that a file holds, without the line's end. Raises `UsageError`."""
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise UsageError(
            f"The password file {os.fspath(file)} cannot be read: {error.strerror}.",
            hint="Check its path and permissions.",
        ) from None


def _value(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise UsageError(f"The environment variable {name} is not set.", hint=f"Set it: export {name}=…")
    return value
