"""A slice of the matrix: cases of every family are refused in words, or equal raw Spark after every step.

`MATRIX_SLICE` says how many cases, `MATRIX_SEED` which rows; `make matrix` runs all of it.
"""

from __future__ import annotations

import os
import re

import pytest
from pyspark.sql import SparkSession

from tests.matrix.cases import Case
from tests.matrix.functions import registered_functions
from tests.matrix.generating import all_cases, sample
from tests.matrix.report import counts, markdown
from tests.matrix.running import Matrix, Result
from tests.matrix.worlds import WORLDS, build_world

SLICE = int(os.environ.get("MATRIX_SLICE", "60"))
SEED = int(os.environ.get("MATRIX_SEED", "1"))
FAMILIES = {"aggregate", "scalar", "shape", "type", "window"}
UNCALLED = {
    **dict.fromkeys(("from_avro", "to_avro", "from_protobuf", "to_protobuf"), "needs a package beside Spark's SQL"),
    "measure": "only metric views have measures",
    "python_worker_logs": "a table of the session's own logs, of no topic",
}
"""Functions without a case, and why."""


@pytest.fixture(scope="module")
def cases(spark: SparkSession) -> list[Case]:
    return all_cases(spark)


@pytest.fixture(scope="module")
def matrix(spark: SparkSession, cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    chosen = sample(cases, SLICE)
    needed = {case.world for case in chosen}
    worlds = {
        name: build_world(name, tmp_path_factory.mktemp("matrix") / name, SEED) for name in WORLDS if name in needed
    }
    made = Matrix(spark, worlds)
    for _ in made.run(chosen):
        pass
    return made


@pytest.mark.timeout(2400)
def test_views_equal_raw_spark_after_every_step(matrix: Matrix) -> None:
    failed = [result for result in matrix.results.values() if result.status == "failed"]
    assert not failed, markdown(failed, matrix.findings, 0, SEED)
    assert matrix.findings == []


def test_the_slice_has_accepted_cases_of_every_family(matrix: Matrix) -> None:
    accepted = [result for result in matrix.results.values() if result.status in ("equal", "open")]
    assert {result.case.family for result in accepted} == FAMILIES
    assert len(accepted) > len(matrix.results) / 3
    assert all(result.comparisons >= 8 for result in accepted)
    assert sum(result.rows for result in accepted) > 10 * len(accepted)


def test_what_is_refused_is_refused_in_a_sentence(matrix: Matrix) -> None:
    refused = [result for result in matrix.results.values() if result.status == "refused"]
    assert [result.detail for result in refused if not _is_sentence(result)] == []


def _is_sentence(result: Result) -> bool:
    return result.case.name in result.detail and not re.search(r"Exception|Py4J|Traceback|\$", result.detail)


def test_every_function_of_the_registry_has_a_case(spark: SparkSession, cases: list[Case]) -> None:
    called = {case.function for case in cases}
    assert {one.name for one in registered_functions(spark)} - called == set(UNCALLED)


def test_names_of_cases_are_unique(cases: list[Case]) -> None:
    assert len({case.name for case in cases}) == len(cases) >= 1500
    assert counts([]) == dict.fromkeys(counts([]), 0)
