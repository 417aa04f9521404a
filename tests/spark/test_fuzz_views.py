"""Random views over random changes are what Spark's batch queries give, after every batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.testing.rounds import Figures, Round, random_round


@pytest.mark.timeout(600)
# 4: exchanged, in small batches. 25: exchanged, then opened again and run in one task.
@pytest.mark.parametrize("seed", [4, 25])
def test_views_equal_batch_queries(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    figures = Figures()
    plan = random_round(seed, tmp_path / "trial", figures, views=6, steps=3)
    Round(plan, tmp_path / "log", figures).run()
    assert "\n".join(map(str, figures.findings)) == ""
    assert figures.batches >= 3
    assert figures.comparisons == figures.batches * len(plan.views)
    assert figures.without_rows < figures.comparisons
    assert figures.reopened == len(plan.legs) - 1
