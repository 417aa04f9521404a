"""Where the class archive is, and when it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.spark import archive


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate Java and cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    binary = tmp_path / "java" / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text("17")
    return binary


def made(content: bytes) -> Path:
    prefix = archive.place()
    assert prefix is not None
    prefix.parent.mkdir(parents=True, exist_ok=True)
    path = prefix.parent / f"{prefix.name}-{len(content)}.jsa"
    path.write_bytes(content)
    return path


def test_an_archive_is_used() -> None:
    assert archive.archive_options() == ""
    path = made(b"classes")
    assert archive.find_archive() == path
    assert archive.archive_options().startswith(f'"-XX:SharedArchiveFile={path}" ')


def test_another_java_has_another_archive(java: Path) -> None:
    made(b"classes")
    java.write_text("17.0.1")
    assert archive.find_archive() is None
    assert archive.archive_options() == ""


def test_one_that_was_cut_off_is_none() -> None:
    made(b"classes").write_bytes(b"cla")
    assert archive.find_archive() is None


def test_an_empty_one_is_not_used_and_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", _never)
    made(b"")
    assert archive.archive_options() == ""
    assert archive.make_archive() is None


def test_without_java_there_is_no_place_for_it(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", _never)
    java.unlink()
    assert archive.place() is None
    assert archive.archive_options() == ""
    assert archive.make_archive() is None


def test_a_path_that_cannot_be_quoted_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / 'a "b"'))
    made(b"classes")
    assert archive.find_archive() is not None
    assert archive.archive_options() == ""


def _never(*_: object, **__: object) -> None:
    raise AssertionError("started a process")
