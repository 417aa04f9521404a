"""`tools/test_servers` without the right to install anything: it names each package that is missing, and continues."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "tools" / "test_servers"
NEEDED = ("sh", "cat", "dirname", "mktemp", "rm")
PACKAGES = {"chromium", "libatomic1", "curl", "maven", "openssl", "procps", "redis-server"}


def programs(folder: Path, *names: str) -> Path:
    """A folder for the PATH that has only these programs of this machine, and a user who is not root."""
    folder.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    (folder / "id").write_text("#!/bin/sh\necho 1000\n")
    (folder / "id").chmod(0o755)
    return folder


def run(tmp_path: Path, path: Path) -> list[str]:
    """What it says, run from a directory that has no .venv."""
    script = tmp_path / "tools" / "test_servers"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    done = subprocess.run([script], env={"PATH": str(path)}, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""
    return done.stderr.splitlines()


def hinted(lines: list[str]) -> set[str]:
    """The packages that it says how to install, but for PostgreSQL's, which has no place on the PATH."""
    hint = "hint: sudo apt-get install "
    return {line.removeprefix(hint) for line in lines if line.startswith(hint)} - {"postgresql"}


def test_a_machine_without_anything(tmp_path: Path) -> None:
    lines = run(tmp_path, programs(tmp_path / "bin", *NEEDED))
    assert hinted(lines) == PACKAGES
    assert "warning: curl is missing; the examples of docs/guides/server.md will fail" in lines
    assert all(line.startswith(("warning: ", "hint: ")) for line in lines)


def test_what_is_there_is_not_asked_for(tmp_path: Path) -> None:
    path = programs(tmp_path / "bin", *NEEDED)
    for name in ("google-chrome", "curl", "mvn", "openssl", "pgrep", "python3", "redis-server"):
        # A python3 that can load every library.
        (path / name).write_text("#!/bin/sh\n")
        (path / name).chmod(0o755)
    assert hinted(run(tmp_path, path)) == set()
