"""Every shape of a plan: limits inside of limits, subqueries in every place, joins of every kind, and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.matrix.cases import Case, case_name
from tests.matrix.plans.correlation import correlated, ordered_by_unselected
from tests.matrix.plans.generators import generators, pivots
from tests.matrix.plans.groupings import groupings
from tests.matrix.plans.joins import joins
from tests.matrix.plans.limits import limits
from tests.matrix.plans.mixtures import mixtures
from tests.matrix.plans.relations import constants, sets
from tests.matrix.plans.subqueries import predicates, subqueries

_SHAPES: Mapping[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "limit": limits,
    "correlated": correlated,
    "subquery": subqueries,
    "predicate": predicates,
    "join": joins,
    "set": sets,
    "constant": constants,
    "grouping": groupings,
    "generator": generators,
    "pivot": pivots,
    "mixed": mixtures,
}
"""What makes the cases of each kind: pairs of a name and SQL."""


def shape_cases() -> Iterator[Case]:
    """All cases; what Spark does not accept is dropped later."""
    for shape, make in _SHAPES.items():
        for name, sql in make():
            yield Case(case_name("shape", shape, name), sql)
    for name, sql, reference in ordered_by_unselected():
        yield Case(case_name("shape", "correlated", name), sql, reference=reference)
