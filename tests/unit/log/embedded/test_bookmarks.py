"""Bookmarks with the commits that set them, listed by prefix, and forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import Conflict
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of


def note(log: EmbeddedLog, name: str, value: object) -> None:
    with log.commit() as commit:
        commit.bookmark(name, value, expect=None)


def test_a_bookmark_knows_its_commit(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data", upkeep=False) as log:
        for number, name in enumerate(("a.2", "b", "a.1", "a"), start=1):
            note(log, name, number)
        found = log.bookmarks.find("a.1")
        assert found is not None
        assert (found.value, commit_of(found.position)) == (3, 3)
        assert log.bookmarks.find("nope") is None
        assert [(one.name, one.value) for one in log.bookmarks.beginning("a.")] == [("a.1", 3), ("a.2", 1)]
        assert log.bookmark("b") == 2


def test_a_forgotten_bookmark_can_be_set_again(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data", upkeep=False) as log:
        note(log, "a", 1)
        with pytest.raises(Conflict):
            note(log, "a", 2)
        log.bookmarks.forget(["a", "never there"])
        assert log.bookmark("a") is None
        note(log, "a", 2)
        assert log.bookmark("a") == 2
