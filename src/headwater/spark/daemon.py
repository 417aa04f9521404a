"""The process that Spark forks its Python workers from: what they need is imported here, once, in memory they share.

Spark's own daemon leaves the imports to each worker, because a process with threads cannot be forked safely. This one
has none: Spark sets `OMP_NUM_THREADS` to 1, so numpy starts none, Arrow's jemalloc is told not to (`session.py`), and
Arrow starts its own threads when they are first used.
"""
# ruff: noqa: E402, F401

from __future__ import annotations

import gc
import sys

# Spark puts its archives of PySpark and Py4J in front. A worker would read their directories again for every package
# that was imported from them, which takes half a second; the installed packages are the same.
sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
sys.path_importer_cache.clear()

import pandas as pd
import pyarrow.acero
import pyarrow.dataset
import pyarrow.pandas_compat
import pyspark.worker
from pyspark.daemon import manager

import headwater.spark.stage
from headwater.views import aggregate, extremes, identity, join, publish, ranks, replace, rows, topk, touched, upsert

if __name__ == "__main__":
    # Collecting garbage writes to every object, and what is written is not shared any more.
    gc.freeze()
    manager()
