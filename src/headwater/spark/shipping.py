"""Ships this package to the workers of a Spark cluster, which have its dependencies and need not have it installed."""

from __future__ import annotations

import zipfile
from pathlib import Path

from pyspark import SparkContext

PACKAGE = Path(__file__).parents[1]
_MODULES = "*.py"


def ship(context: SparkContext) -> None:
    """Gives the package as it is here to all workers of a Spark that is not in this process, those to come as well."""
    # Executors get the file from where it is; Spark removes this directory when it ends.
    path = Path(context._temp_dir) / f"{PACKAGE.name}.zip"  # noqa: SLF001
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(PACKAGE.rglob(_MODULES)):
            archive.write(module, Path(PACKAGE.name) / module.relative_to(PACKAGE))
    context.addPyFile(str(path))
