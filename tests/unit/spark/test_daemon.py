"""The daemon of Spark's Python workers imports everything that a stage needs, and starts no thread."""

from __future__ import annotations

import os
import subprocess
import sys

from headwater.spark.session import _SETTINGS

PREFIX = "spark.executorEnv."
LOOK = """
import sys
from pathlib import Path
import headwater.spark.daemon
print(len(list(Path("/proc/self/task").iterdir())), *sys.modules)
"""


def test_it_has_what_workers_need_and_no_thread() -> None:
    """What has threads cannot be forked. The environment is the one that Spark gives it."""
    given = {name.removeprefix(PREFIX): value for name, value in _SETTINGS.items() if name.startswith(PREFIX)}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **given}
    done = subprocess.run(
        [sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    threads, *modules = done.stdout.split()
    assert threads == "1"
    assert {"headwater.spark.stage", "headwater.views.join", "pyarrow.dataset", "pyspark.worker"} <= set(modules)
