"""All cases of the matrix, and samples of them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from tests.matrix.aggregates import aggregate_cases
from tests.matrix.cases import Case, unique
from tests.matrix.functions import registered_functions
from tests.matrix.kinds import type_cases
from tests.matrix.scalars import scalar_cases
from tests.matrix.shapes import shape_cases
from tests.matrix.windows import window_cases


def all_cases(session: SparkSession) -> list[Case]:
    """Every case for the functions of this Spark, in the same order each time."""
    functions = registered_functions(session)
    return list(
        unique(
            [
                *shape_cases(),
                *window_cases(functions),
                *aggregate_cases(functions),
                *type_cases(),
                *scalar_cases(functions),
            ]
        )
    )


def sample(cases: Sequence[Case], count: int) -> list[Case]:
    """Some cases, spread evenly, so that all families are among them."""
    step = max(1, len(cases) // count)
    return list(cases[::step])
