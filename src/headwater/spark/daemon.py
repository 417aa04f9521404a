"""What forks Spark's Python workers: it imports what a stage needs once, before it forks.

Spark's own daemon leaves the imports to each worker, because a process with threads cannot be forked safely. This one
runs none: Spark sets `OMP_NUM_THREADS` to 1, so that numpy starts none, and Arrow starts its own when it is first used.
"""

from __future__ import annotations

import gc
import sys

# Spark puts its archives of PySpark and Py4J in front. A worker would read their directories again for every package
# that was imported from them, which takes half a second; the installed packages are the same.
sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
sys.path_importer_cache.clear()

import pandas  # noqa: E402, F401, ICN001 - Arrow imports it when it is first handed an array of numpy
import pyspark.worker  # noqa: E402, F401 - what a worker runs
from pyspark.daemon import manager  # noqa: E402

import headwater.spark.stage  # noqa: E402, F401 - what Spark hands it

if __name__ == "__main__":
    # A worker collects garbage after every task: it need not look at what was imported.
    gc.freeze()
    manager()
