"""The matrix finds what is wrong, names the view, and continues with the others."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.model.position import Position
from tests.matrix import running
from tests.matrix.cases import Case
from tests.matrix.report import counts, markdown
from tests.matrix.running import Matrix
from tests.matrix.worlds import World, build_world

RIGHT = Case("shape_right", "SELECT id, i FROM t")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build_world("plain", tmp_path_factory.mktemp("matrix") / "plain", 1)


def run(spark: SparkSession, world: World, *cases: Case) -> Matrix:
    matrix = Matrix(spark, {world.name: world})
    for _ in matrix.run(cases):
        pass
    return matrix


def test_what_is_wrong_refused_invalid_and_undecided_is_told_apart(spark: SparkSession, world: World) -> None:
    cases = {
        "equal": RIGHT,
        "failed": Case("shape_wrong", "SELECT id, i FROM t", reference="SELECT id, coalesce(i, 0) AS i FROM t"),
        "refused": Case("shape_refused", "SELECT id, rand() AS v FROM t"),
        "invalid": Case("shape_invalid", "SELECT nobody FROM t"),
        "undecided": Case("shape_undecided", "SELECT id, 1 / (i - i) AS v FROM t"),
        "open": Case("shape_open", "SELECT g, collect_list(id) AS v FROM t GROUP BY g"),
    }
    matrix = run(spark, world, *cases.values())
    assert {result.status: result.case.name for result in matrix.results.values()} == {
        status: case.name for status, case in cases.items()
    }
    wrong = matrix.results["shape_wrong"]
    assert wrong.step == "first rows, of all topics in one commit"
    assert "surplus" in wrong.detail
    right = matrix.results["shape_right"]
    assert right.comparisons == len(world.moments)
    assert counts(matrix.results.values())["different"] == 1
    assert "shape_wrong" in markdown(list(matrix.results.values()), [], 1, 1).partition("## Refused")[0]
    assert matrix.findings == []


def test_of_alternatives_the_first_that_spark_runs_is_taken(spark: SparkSession, world: World) -> None:
    case = Case("shape_any", "SELECT nobody FROM t", alternatives=("SELECT 1 / 0 AS v FROM t", "SELECT id FROM t"))
    result = run(spark, world, case).results["shape_any"]
    assert (result.status, result.case.sql) == ("equal", "SELECT id FROM t")


@pytest.mark.parametrize("step", [1, 3])
def test_a_view_that_breaks_a_batch_is_found_and_left_out(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(running, "App", breaking("shape_bad", world.moments[step].position))
    others = [Case(f"shape_other_{number}", f"SELECT id, i + {number} AS v FROM t") for number in range(4)]
    results = run(spark, world, RIGHT, Case("shape_bad", "SELECT id FROM t"), *others).results
    assert {name: result.status for name, result in results.items()} == {
        "shape_right": "equal",
        "shape_bad": "failed",
        **{case.name: "equal" for case in others},
    }
    assert results["shape_bad"].step == world.moments[step].step.title
    assert "a batch breaks" in results["shape_bad"].detail


def breaking(view: str, position: Position) -> Any:
    """An application whose batch up to a position fails if it has a view, without saying which."""

    class Breaking(App):
        def catch_up(self, end: Position | None = None, *, approve: bool = False) -> Position:
            if view in self.views and end is not None and end >= position:
                raise RuntimeError("a batch breaks")
            return super().catch_up(end, approve=approve)

    return Breaking


def test_a_world_has_what_makes_views_differ(world: World) -> None:
    rows = [row for moment in world.moments for row in moment.rows["t"].to_pylist()]
    doubles = [row["x"] for row in rows if row["x"] is not None]
    assert {str(double) for double in doubles} >= {"nan", "inf", "-inf", "-0.0", "1e+16", "-1e+16", "1.0"}
    assert {row["s"] for row in rows} >= {"", None, "a", "A"}
    assert all(any(row[name] is None for row in rows) for name in ("g", "k", "o", "i", "d8", "ts", "bn"))
    sizes = [moment.rows["t"].num_rows for moment in world.moments]
    assert sizes.count(0) == 2
    assert max(sizes) > 8
    groups = [{row["g"] for row in moment.rows["t"].to_pylist()} for moment in world.moments]
    assert any("a" in now and "a" not in later for now, later in pairwise(groups))
    assert len([moment for moment in world.moments if moment.step.reopen]) == 1


def test_a_seed_decides_the_rows(tmp_path: Path, world: World) -> None:
    again, other = (build_world("plain", tmp_path / str(seed), seed) for seed in (1, 2))
    assert [moment.rows["u"].to_pylist() for moment in again.moments[1:3]] != [
        moment.rows["u"].to_pylist() for moment in other.moments[1:3]
    ]
    assert repr([moment.rows["u"].to_pylist() for moment in again.moments]) == repr(
        [moment.rows["u"].to_pylist() for moment in world.moments]
    )
