"""The process that Spark forks its Python workers from: what they need is imported here, once, in memory they share.

Forking is safe without threads only: OpenBLAS starts none (Spark sets `OMP_NUM_THREADS`), and Arrow's jemalloc is told
not to (`session.py`).
"""
# ruff: noqa: F401

from __future__ import annotations

import gc

import pandas as pd
import pyarrow.acero
import pyarrow.dataset
import pyarrow.pandas_compat
import pyspark.worker
from pyspark.daemon import manager

import headwater.spark.stage
from headwater.views import aggregate, extremes, identity, join, publish, replace, rows, topk, touched, upsert

if __name__ == "__main__":
    # Collecting garbage writes to every object, and what is written is not shared any more.
    gc.freeze()
    manager()
