"""What a worker of Spark says of an archive, a store or a log becomes that error, so that the batch is tried again."""

from __future__ import annotations

import traceback

import pytest
from pyspark.errors import PythonException

from headwater.errors import ArchiveUnavailable, InternalError, LogUnavailable, StoreUnavailable
from headwater.spark.failures import unexpected


def as_reported(error: Exception) -> PythonException:
    """The text that Spark makes of what a worker raised."""
    text = "".join(traceback.format_exception(error))
    return PythonException(message=f"\n  An exception was thrown from the Python worker:\n{text}")


def test_an_archive_that_a_worker_could_not_read_is_told_as_that() -> None:
    told = unexpected(as_reported(ArchiveUnavailable("s3://bucket/a", "no answer within 30 s", "Check the network.")))
    assert isinstance(told, ArchiveUnavailable)
    assert (told.location, told.reason, told.hint) == ("s3://bucket/a", "no answer within 30 s", "Check the network.")


@pytest.mark.parametrize(
    "error", [StoreUnavailable("s3://bucket/shop", "no answer"), LogUnavailable("kafka://broker/shop", "timed out")]
)
def test_a_server_that_a_worker_could_not_reach_is_told_as_that(error: StoreUnavailable | LogUnavailable) -> None:
    told = unexpected(as_reported(error))
    assert isinstance(told, StoreUnavailable | LogUnavailable)
    assert (type(told), str(told), told.reason) == (type(error), str(error), error.reason)


def test_anything_else_stays_a_bug() -> None:
    assert isinstance(unexpected(as_reported(ValueError("The archive is wrong."))), InternalError)
