"""Every view that cannot be kept up to date is refused when it is loaded, with the reason and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater.errors
from headwater.errors import HeadwaterError
from headwater.log.topic import Topic
from headwater.spark.program import Program
from tests.sql.casefile import CaseFile, Refusal, read
from tests.sql.running import open_app

FILES = [read(path) for path in sorted((Path(__file__).parent / "refused").glob("*.test"))]
CASES = [pytest.param(file, refusal, id=refusal.views[0].name) for file in FILES for refusal in file.refusals]


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Topic]]:
    """The topics of each file."""
    found = {}
    for file in FILES:
        with open_app(file, tmp_path_factory.mktemp(file.name) / "log") as app:
            found[file.name] = app.log.topics()
    return found


@pytest.mark.parametrize(("file", "refusal"), CASES)
def test_refused(spark: SparkSession, topics: dict[str, list[Topic]], file: CaseFile, refusal: Refusal) -> None:
    kind: type[HeadwaterError] = getattr(headwater.errors, refusal.error)
    with pytest.raises(kind) as raised:
        Program(spark, topics[file.name], {view.name: view.sql for view in refusal.views})
    assert raised.value.message == refusal.message
    assert raised.value.hint == refusal.hint
