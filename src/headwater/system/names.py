"""What names are allowed: nothing in a name can leave its folder or confuse a shell."""

from __future__ import annotations

import re

from headwater.errors import InvalidName

NAME_LENGTH_MAX = 200
_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_name(kind: str, name: str) -> str:
    """The name itself. Raises `InvalidName` with the reason."""
    if not name:
        raise InvalidName(kind, str(name), "it is empty")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidName(kind, name, f"it is longer than {NAME_LENGTH_MAX} characters")
    if not _ALLOWED.fullmatch(name):
        raise InvalidName(kind, name, "it has an invalid character, or an invalid first character")
    return name
