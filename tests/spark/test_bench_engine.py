"""The benchmark's workloads, in small: what the views hold in the end is what DuckDB says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.engine import ours, truth
from bench.engine.workloads import WORKLOADS, write

pytestmark = pytest.mark.usefixtures("spark")
ROWS = 30_000


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_view_that_caught_up_holds_the_truth(name: str, tmp_path: Path) -> None:
    workload = WORKLOADS[name]
    write(workload, ROWS, tmp_path / "input")
    caught = ours.catch_up(workload, tmp_path / "input", tmp_path)
    expected = truth.expected(workload, tmp_path / "input")
    assert caught.rows == ROWS
    assert expected.num_rows
    assert truth.differing(caught.view, expected) == 0
    assert truth.differing(caught.view.slice(1), expected) == 1
