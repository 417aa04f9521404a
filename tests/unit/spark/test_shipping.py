"""What is shipped to the workers of a cluster can be imported there, and is all of the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from headwater.spark.shipping import PACKAGE, ship


class Context:
    """Keeps what it is given, as Spark does, which copies it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def addPyFile(self, path: str) -> None:  # noqa: N802 - as Spark has it
        shutil.copy(path, self.folder / Path(path).name)


def test_the_package_can_be_imported_from_what_is_shipped(tmp_path: Path) -> None:
    context: Any = Context(tmp_path)
    ship(context)
    (shipped,) = tmp_path.iterdir()
    with zipfile.ZipFile(shipped) as archive:
        names = set(archive.namelist())
    assert {f"headwater/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py")} == names
    program = "import headwater.engine.runs as r; print(r.__file__)"
    said = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(shipped)!r}); {program}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.startswith(str(shipped))
