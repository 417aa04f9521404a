"""A demo's folder is gone when it ends, and a folder that a killed one left is removed by the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.demo.folder import LOCK, PREFIX, Folder, sweep


def test_what_nobody_holds_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / LOCK).touch()
    others = tmp_path / f"{PREFIX}without-a-lock"
    others.mkdir()
    with Folder() as folder:
        assert not left.exists()
        (folder.path / "file").touch()
        sweep()
        assert (folder.path / "file").exists()
    assert list(tmp_path.iterdir()) == [others]
