"""Every view of every case file: right after every step, and the same in one batch of several tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sql.casefile import CaseFile, read
from tests.sql.rendering import table_cells
from tests.sql.running import Outcome, run_at_once, run_by_steps

FILES = {path.stem: read(path) for path in sorted((Path(__file__).parent / "cases").glob("*.test"))}
CASES = [pytest.param(file, view.name, id=f"{name}-{view.name}") for name, file in FILES.items() for view in file.views]

Runs = Callable[[CaseFile], Outcome]


@pytest.fixture(scope="module")
def by_steps(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return _once(lambda file: run_by_steps(file, tmp_path_factory.mktemp(file.name) / "log"))


@pytest.fixture(scope="module")
def at_once(by_steps: Runs, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return _once(lambda file: run_at_once(file, tmp_path_factory.mktemp(file.name) / "log", by_steps(file).program))


def _once(run: Runs) -> Runs:
    """Runs a file when its first view is looked at; what goes wrong then goes wrong for every view of it."""
    outcomes: dict[str, Outcome | Exception] = {}

    def outcome(file: CaseFile) -> Outcome:
        if file.name not in outcomes:
            try:
                outcomes[file.name] = run(file)
            except Exception as error:  # noqa: BLE001
                outcomes[file.name] = error
        found = outcomes[file.name]
        if isinstance(found, Exception):
            raise found
        return found

    return outcome


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("file", "view"), CASES)
def test_view_after_every_step(by_steps: Runs, file: CaseFile, view: str) -> None:
    outcome = by_steps(file)
    assert outcome.differences[view] == []
    assert _written(file, view) == table_cells(outcome.content[view])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("file", "view"), CASES)
def test_view_in_one_batch_of_several_tasks(at_once: Runs, file: CaseFile, view: str) -> None:
    assert _written(file, view) == table_cells(at_once(file).content[view])


def _written(file: CaseFile, view: str) -> list[list[str]]:
    names, *rows = next(one for one in file.views if one.name == view).expected or [[]]
    return [names, *sorted(rows)]


def test_there_are_many_cases() -> None:
    assert len(CASES) >= 150
