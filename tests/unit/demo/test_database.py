"""The programs of the demo's database: where they are, and where who runs them can reach them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.demo.database import programs, reachable


def package(directory: Path) -> Path:
    """The programs of a package with libraries beside it."""
    place = directory / "server" / "install" / "bin"
    place.mkdir(parents=True)
    (place / "postgres").write_text("the server")
    (directory / "server.libs").mkdir()
    (directory / "server.libs" / "libpq.so").write_text("a library")
    return place


def test_there_is_a_server() -> None:
    assert os.access(programs() / "postgres", os.X_OK)


def test_what_everybody_reaches_is_taken_as_it_is(tmp_path: Path) -> None:
    assert reachable(Path("/usr/bin"), tmp_path) == Path("/usr/bin")


def test_what_root_alone_reaches_is_copied_with_its_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    place = package(home)
    home.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    copy = reachable(place, folder)
    assert copy == folder / "server" / "install" / "bin"
    assert (copy / "postgres").read_text() == "the server"
    assert (folder / "server.libs" / "libpq.so").read_text() == "a library"
    assert reachable(place, folder) == copy


def test_who_is_not_root_runs_them_himself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = package(tmp_path)
    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert reachable(place, tmp_path / "folder") == place
