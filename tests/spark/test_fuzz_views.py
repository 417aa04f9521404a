"""Random views over random changes are what raw Spark gives, after every batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.testing.fuzzing.findings import Figures
from headwater.testing.fuzzing.seeds import plan_of, run_plan


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [4, 25])
def test_views_equal_raw_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    figures = Figures()
    plan = plan_of(seed, tmp_path / "trial", figures, views=8, steps=3)
    run_plan(plan, tmp_path / "log", figures)
    assert "\n".join(map(str, figures.findings)) == ""
    assert figures.batches >= 3
    assert figures.comparisons > figures.without_rows
    assert figures.reopened == len(plan.legs) - 1


@pytest.mark.timeout(900)
def test_views_fail_if_and_only_if_raw_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    figures = Figures()
    plan = plan_of(7, tmp_path / "trial", figures, views=16, steps=3)
    run_plan(plan, tmp_path / "log", figures)
    assert "\n".join(map(str, figures.findings)) == ""
    assert figures.failed + figures.set_aside >= 1
