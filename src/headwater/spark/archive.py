"""The class archive: what Java has loaded for Spark, parsed and verified once, which halves the time of its start.

It lies in the user's cache and belongs to one Java, one Spark and one headwater. Nothing depends on it: Java ignores an
archive that is missing, damaged or made by another Java. `headwater.spark.archiving` makes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pyspark

# Java says on standard output why it ignores an archive.
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
MAKING = "headwater.spark.archiving"
BACKGROUND = "--background"


def place() -> Path | None:
    """What the archive's name begins with; None if there is no Java, or no folder for it."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    jars = Path(pyspark.__file__).parent.resolve() / "jars"
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        files = [Path(java or "").resolve(strict=True), jars]
        known = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    except (OSError, RuntimeError):
        return None
    fingerprint = hashlib.sha256(repr((known, pyspark.__version__, version("headwater"))).encode()).hexdigest()[:16]
    return cache / "headwater" / f"classes-{fingerprint}"


def find_archive() -> Path | None:
    """The archive, if there is one that is complete. An empty one says that this Java makes none."""
    prefix = place()
    if prefix is None:
        return None
    # Java finds any damage but this: an archive that was cut off makes it crash. So the name has the size.
    found = prefix.parent.glob(f"{prefix.name}-*.jsa")
    return next((path for path in found if path.stem == f"{prefix.name}-{path.stat().st_size}"), None)


def archive_options() -> str:
    """The options by which Java uses the archive; none if there is none."""
    path = find_archive()
    # Spark splits options at spaces, and knows no other quotes than these.
    if path is None or path.stat().st_size == 0 or '"' in str(path):
        return ""
    with suppress(OSError):
        # Those that are not used for a while are removed.
        os.utime(path)
    return f'"-XX:SharedArchiveFile={path}" -XX:+VerifySharedSpaces {QUIET}'


def make_archive() -> subprocess.Popen[bytes] | None:
    """Begins to make the archive if there is none, in the time that others leave; it ends with this process."""
    if place() is None or find_archive() is not None:
        return None
    command, quiet = [sys.executable, "-P", "-m", MAKING, BACKGROUND], subprocess.DEVNULL
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
