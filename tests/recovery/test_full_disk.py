"""A disk that is really full: the append is refused, nothing is lost, and the log continues when there is room."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def can_mount() -> bool:
    """Whether we may make a small file system of our own: only root may, and not in every container."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False)
        if mounted.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return mounted.returncode == 0


@pytest.mark.parametrize("kind", ["limit", *(["tmpfs", "retain-tmpfs"] if can_mount() else [])])
def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path, kind: str) -> None:
    script = Path(__file__).with_name("full_disk.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", script, kind, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
