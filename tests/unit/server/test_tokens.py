"""Tokens: shown once, kept as hashes in a file for its owner, revoked within a second."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from headwater.errors import UsageError
from headwater.server.tokens import FILE, Scope, Tokens, allows


def test_a_token_is_found_and_its_text_is_nowhere(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "app")
    text = tokens.create("ci", "write")
    found = tokens.find(text)
    assert found is not None
    assert (found.name, found.scope) == ("ci", "write")
    assert tokens.find(text + "x") is None
    held = (tmp_path / "app" / FILE).read_bytes()
    assert text.encode() not in held
    assert text.rpartition("_")[2].encode() not in held
    assert stat.S_IMODE((tmp_path / "app" / FILE).stat().st_mode) == 0o600


def test_a_revoked_token_is_refused_after_the_next_look(tmp_path: Path) -> None:
    server, owner = Tokens(tmp_path), Tokens(tmp_path)
    text = owner.create("ci", "read")
    assert server.find(text) is not None
    owner.revoke("ci")
    server.refresh()
    assert server.find(text) is None


def test_mistakes(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.create("ci", "read")
    with pytest.raises(UsageError, match="already"):
        tokens.create("ci", "admin")
    with pytest.raises(UsageError, match="There is no token"):
        tokens.revoke("other")
    with pytest.raises(UsageError):
        tokens.create("no/slash", "read")
    assert [(one.name, one.scope) for one in tokens.all()] == [("ci", "read")]


def test_looking_makes_no_file(tmp_path: Path) -> None:
    assert Tokens(tmp_path).all() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("held", "needed", "enough"),
    [("read", "read", True), ("read", "write", False), ("write", "read", True), ("write", "admin", False)],
)
def test_scopes_contain_each_other(held: Scope, needed: Scope, enough: bool) -> None:
    assert allows(held, needed) is enough
    assert allows("admin", needed)
