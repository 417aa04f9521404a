"""Every view of every case file: as strangers answer it, after every step, and in one batch of several tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from pyspark.sql import SparkSession

from headwater.engine.comparison import Difference, differences
from tests.sql.casefile import CaseFile, View, read
from tests.sql.duck import run_by_duckdb
from tests.sql.rendering import Written, table_cells
from tests.sql.running import Oracle, Outcome, Tables, run_at_once, run_by_raw_spark, run_by_steps

Result = TypeVar("Result")

FILES = [read(path) for path in sorted((Path(__file__).parent / "cases").glob("*.test"))]
CASES = [pytest.param(file, view, id=f"{file.name}-{view.name}") for file in FILES for view in file.views]
DUCKDB_RUNS_AT_LEAST = {
    "aggregates": 9, "asof": 7, "constants": 22, "correlated": 21, "distinct_aggregates": 10, "filters": 13,
    "generators": 4, "history": 23, "intervals": 7, "joins": 15, "limits": 12, "maps": 11, "nesting": 12, "now": 15,
    "ranks": 18, "scalars": 0, "sessions": 0, "sets": 17, "statistics": 10, "subqueries": 21, "tables": 10,
    "times": 2, "traps": 19, "windows": 16,
}  # fmt: skip
"""How many views of each file DuckDB answers, too."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def raw_spark(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[CaseFile], Future[Oracle]]]:
    """What raw Spark says about a file; it looks for it while something else is done."""
    with ThreadPoolExecutor(1) as pool:
        yield _once(lambda file: pool.submit(run_by_raw_spark, spark, file, tmp_path_factory.mktemp(file.name) / "log"))


@pytest.fixture(scope="module")
def duckdb(raw_spark: Callable[[CaseFile], Future[Oracle]]) -> Callable[[CaseFile], dict[str, Written]]:
    """The answers of DuckDB to those views of a file that it runs and that have one answer."""
    return _once(lambda file: run_by_duckdb(file, raw_spark(file).result()))


@pytest.fixture(scope="module")
def by_steps(
    raw_spark: Callable[[CaseFile], Future[Oracle]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[CaseFile], Outcome]:
    def run(file: CaseFile) -> Outcome:
        raw_spark(file)
        return run_by_steps(file, tmp_path_factory.mktemp(file.name) / "log")

    return _once(run)


@pytest.fixture(scope="module")
def at_once(
    by_steps: Callable[[CaseFile], Outcome], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[CaseFile], Tables]:
    return _once(lambda file: run_at_once(file, tmp_path_factory.mktemp(file.name) / "log", by_steps(file).program))


def _once(run: Callable[[CaseFile], Result]) -> Callable[[CaseFile], Result]:
    """Runs a file when its first view is looked at; what goes wrong then goes wrong for every view of it."""
    results: dict[str, Result | Exception] = {}

    def result(file: CaseFile) -> Result:
        if file.name not in results:
            try:
                results[file.name] = run(file)
            except Exception as error:  # noqa: BLE001
                results[file.name] = error
        found = results[file.name]
        if isinstance(found, Exception):
            raise found
        return found

    return result


@pytest.mark.parametrize(("file", "view"), CASES)
def test_view_after_every_step(
    by_steps: Callable[[CaseFile], Outcome],
    raw_spark: Callable[[CaseFile], Future[Oracle]],
    file: CaseFile,
    view: View,
) -> None:
    outcome, titles = by_steps(file), ["Nothing yet", *(step.title for step in file.steps)]
    if view.open or view.spark:
        wrong = outcome.wrong[view.name]
    else:
        right = raw_spark(file).result().after
        wrong = [_differences(view, *tables) for tables in zip(outcome.after, right, strict=True)]
    assert [(title, found) for title, found in zip(titles, wrong, strict=True) if found] == []
    assert table_cells(outcome.after[-1][view.name]) == view.table


def _differences(view: View, content: Tables, right: Tables) -> Sequence[Difference]:
    found = content[view.name]
    return differences(found, right[view.name].cast(found.schema))


@pytest.mark.parametrize(("file", "view"), CASES)
def test_view_in_one_batch_of_several_tasks(at_once: Callable[[CaseFile], Tables], file: CaseFile, view: View) -> None:
    assert table_cells(at_once(file)[view.name]) == view.table


@pytest.mark.parametrize(("file", "view"), CASES)
def test_expectation_is_what_raw_spark_answers(
    raw_spark: Callable[[CaseFile], Future[Oracle]], file: CaseFile, view: View
) -> None:
    oracle = raw_spark(file).result()
    if view.spark:
        assert view.name in oracle.failing, "Spark does answer this"
        return
    answers = oracle.answers[view.name]
    if view.open:
        assert answers.written != [view.table], "This is the only answer"
        assert answers.impossible(view.table) == []
    else:
        assert answers.written == [view.table]


@pytest.mark.parametrize(("file", "view"), CASES)
def test_expectation_is_what_duckdb_answers(
    duckdb: Callable[[CaseFile], dict[str, Written]], file: CaseFile, view: View
) -> None:
    answer = duckdb(file).get(view.name)
    if view.duckdb:
        assert answer not in (None, view.table), "DuckDB does not differ"
    elif answer is None:
        assert not view.spark, "Spark does not answer this, so DuckDB has to"
    else:
        assert answer == view.table


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_duckdb_answers_many(duckdb: Callable[[CaseFile], dict[str, Written]], file: CaseFile) -> None:
    agreed = [view for view in file.views if view.name in duckdb(file) and not view.duckdb]
    assert len(agreed) >= DUCKDB_RUNS_AT_LEAST[file.name]


def test_there_are_many_cases() -> None:
    assert len(CASES) >= 320
