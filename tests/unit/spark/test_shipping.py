"""What is shipped to the workers of a cluster can be imported there, and is all of the package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from headwater.spark.shipping import PACKAGE, ship


class Context:
    """Keeps the path that it is given, as Spark does: executors get the file from there, whenever they come."""

    def __init__(self, folder: Path) -> None:
        self._temp_dir = str(folder)
        self.files: list[str] = []

    def addPyFile(self, path: str) -> None:  # noqa: N802 - as Spark has it
        self.files.append(path)


def test_the_package_can_be_imported_from_what_is_shipped(tmp_path: Path) -> None:
    context: Any = Context(tmp_path)
    ship(context)
    (shipped,) = context.files
    assert Path(shipped).parent == tmp_path
    with zipfile.ZipFile(shipped) as archive:
        names = set(archive.namelist())
    assert {f"headwater/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py")} == names
    program = "import headwater.engine.runs as r; print(r.__file__)"
    said = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {shipped!r}); {program}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.startswith(shipped)
