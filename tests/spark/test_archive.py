"""The class archive, made and used by a real Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.spark.archive import find_archive

MAKE = [sys.executable, "-P", "-m", "headwater.spark.archiving"]
USE = """
from headwater.spark.session import start_session
session = start_session("local[1]")
print(session.range(3).count())
options = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
print(sum("SharedArchiveFile" in option for option in options))
"""


def _run(command: list[str], cache: Path) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.timeout(900)
@pytest.mark.spark
def test_an_archive_is_made_once_and_damage_is_ignored(tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    known = find_archive()
    if known is None:
        _run(MAKE, cache)
    else:
        # `make setup` has made one, which takes half a minute.
        (cache / "headwater").mkdir(parents=True)
        shutil.copy(known, cache / "headwater")
    (path,) = (cache / "headwater").glob("*.jsa")
    before = path.stat()
    assert before.st_size > 0
    _run(MAKE, cache)
    assert path.stat().st_ino == before.st_ino, "it is not made again"
    assert not list((cache / "headwater").glob("*.made"))
    assert _run([sys.executable, "-c", USE], cache).split() == ["3", "1"]
    path.chmod(0o600)
    with path.open("r+b") as file:
        for place in range(before.st_size // 4, before.st_size, 100_000):
            file.seek(place)
            file.write(b"\xff" * 100)
    assert _run([sys.executable, "-c", USE], cache).split() == ["3", "1"], "Java says nothing, and does without"
