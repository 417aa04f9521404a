"""Opening a log: by a path or a URL, and only what is asked for is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import UsageError


def test_a_path_a_text_and_a_url_open_the_same_log(tmp_path: Path) -> None:
    path = tmp_path / "with space" / "log"
    with hw.open(path) as log:
        position = log.append(log.create("orders", "id bigint").name, [{"id": 1}])
        assert log.url == path.as_uri()
    for address in (
        str(path),
        path.as_uri(),
        f"file:{tmp_path}/with%20space/log",
        f"file://localhost{path.as_uri()[7:]}",
    ):
        with hw.open(address, create=False) as log:
            assert (log.position(), log.url) == (position, path.as_uri())


def test_a_relative_path_is_one_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for address in ("here", "file:here", "a:b"):
        hw.open(address).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a:b", "here"]


def test_another_scheme_names_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="'carrier-pigeon'") as error:
        hw.open("carrier-pigeon://roof/3")
    assert "schemes: file" in error.value.hint


@pytest.mark.parametrize("url", ["file:", "file://", "file://elsewhere/data", "file:///data?x=1", "file:///data#x"])
def test_a_url_that_is_no_directory(url: str) -> None:
    with pytest.raises(UsageError, match="not the URL of a directory"):
        hw.open(url)


def test_the_port_loads_no_log_and_no_sqlite() -> None:
    script = (
        "import sys, headwater.log.port, headwater.log.maintenance\n"
        "loaded = [name for name in sys.modules if name.startswith(('apsw', 'sqlite3', 'headwater.log.embedded'))]\n"
        "print(loaded)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
