"""Tokens: who may read, write or administer. A token is random, shown once, and only its hash is kept."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from headwater.errors import TokensUnusable, UsageError
from headwater.system.names import check_name
from headwater.system.sqlite import (
    Connection,
    ConstraintError,
    Error,
    connect,
    create_tables,
    has_tables,
    is_verified,
    reason_of,
)  # fmt: skip

Scope = Literal["read", "write", "admin"]
"""What a token allows. A writer may read, and an admin may do everything."""

FILE = "tokens.db"
BUSY_SECONDS_MAX = 10.0
LOOK_EVERY_SECONDS = 1.0
"""A token that was revoked is refused after this time at the latest."""

_PREFIX = "hw"
_RANDOM_BYTES = 32
_TABLE = (
    "CREATE TABLE IF NOT EXISTS tokens ("
    "name TEXT PRIMARY KEY, scope TEXT NOT NULL, hash TEXT NOT NULL, created_at REAL NOT NULL)"
)


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token, which is not the token itself."""

    name: str
    scope: Scope
    hash: str
    created_at: float


def allows(held: Scope, needed: Scope) -> bool:
    """Whether one scope contains another."""
    order = get_args(Scope)
    return order.index(held) >= order.index(needed)


class Tokens:
    """The tokens of an application, in a file that only its owner may read."""

    def __init__(self, directory: Path) -> None:
        self._path = Path(directory) / FILE
        self._known: dict[str, Token] | None = None

    def create(self, name: str, scope: Scope) -> str:
        """A new token, which cannot be shown again. Raises `UsageError` if the name is taken."""
        check_name("token", name)
        if scope not in get_args(Scope):
            raise UsageError(f"{scope!r} is not a scope.", hint=f"Use one of {', '.join(get_args(Scope))}.")
        text = f"{_PREFIX}_{scope}_{secrets.token_urlsafe(_RANDOM_BYTES)}"
        try:
            with self._opened() as connection:
                connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?)", (name, scope, _hash(text), time.time()))
        except ConstraintError:
            raise UsageError(
                f"There is already a token named {name!r}.", hint="Revoke it first, or use another name."
            ) from None
        self.refresh()
        return text

    def revoke(self, name: str) -> None:
        """Raises `UsageError` if there is no such token."""
        with self._opened() as connection:
            connection.execute("DELETE FROM tokens WHERE name = ?", (name,))
            gone = connection.changes()
        if not gone:
            raise UsageError(f"There is no token {name!r}.", hint="`headwater token APP --list` shows them.")

    def all(self) -> list[Token]:
        """By name."""
        if not self._path.exists():
            return []
        with self._opened() as connection:
            rows = connection.execute("SELECT name, scope, hash, created_at FROM tokens ORDER BY name").fetchall()
        return [Token(*row) for row in rows]

    def refresh(self) -> None:
        """Looks which tokens there are."""
        self._known = {token.hash: token for token in self.all()}

    def known(self) -> dict[str, Token]:
        """By hash, as of the last look."""
        if self._known is None:
            self.refresh()
        return self._known or {}

    def find(self, text: str) -> Token | None:
        """The token that a client has sent; None if it is not one."""
        # The hash of what was sent is looked up: how long that takes tells nothing about tokens.
        return self.known().get(_hash(text))

    @contextmanager
    def _opened(self) -> Iterator[Connection]:
        """A transaction. Raises `TokensUnusable`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            with closing(connect(self._path, mode="write", busy_seconds=BUSY_SECONDS_MAX)) as connection:
                if not has_tables(connection):
                    create_tables(connection, f"{_TABLE};", journal="DELETE")
                if not is_verified(connection):
                    raise TokensUnusable(str(self._path), "it has no checksums")
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
        except ConstraintError:
            raise
        except Error as error:
            raise TokensUnusable(str(self._path), reason_of(error)) from error


def _hash(text: str) -> str:
    # A token has 256 random bits: nobody guesses it, so that a slow hash would protect nothing.
    return hashlib.sha256(text.encode()).hexdigest()
