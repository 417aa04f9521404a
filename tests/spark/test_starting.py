"""Spark starts beside what a program does meanwhile, and disturbs nothing of it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headwater.spark.catalyst import Catalyst
from headwater.spark.starting import planned_job


def test_workers_start_without_ids_that_a_view_is_planned_with(spark: SparkSession) -> None:
    job, catalyst = planned_job(spark), Catalyst(spark)
    before = catalyst.next_number()
    assert [row.id for row in job.collect()] == [0]
    assert catalyst.next_number() == before
