"""Every aggregate function of Spark's registry: plain, DISTINCT and FILTER, with and without groups, over all types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.matrix.cases import Case, case_name
from tests.matrix.functions import AGGREGATES, Function, distinct
from tests.matrix.worlds import COLUMNS

SKETCHES: Mapping[str, str] = {
    "approx_top_k_combine": "(SELECT g, approx_top_k_accumulate(s) AS k FROM t GROUP BY g, o)",
    "hll_union_agg": "(SELECT g, hll_sketch_agg(i) AS k FROM t GROUP BY g, o)",
    "theta_union_agg": "(SELECT g, theta_sketch_agg(i) AS k FROM t GROUP BY g, o)",
    "theta_intersection_agg": "(SELECT g, theta_sketch_agg(i) AS k FROM t GROUP BY g, o)",
    "tuple_union_agg_double": "(SELECT g, tuple_sketch_agg_double(i, y) AS k FROM t GROUP BY g, o)",
    "tuple_union_agg_integer": "(SELECT g, tuple_sketch_agg_integer(l, i) AS k FROM t GROUP BY g, o)",
    "tuple_intersection_agg_double": "(SELECT g, tuple_sketch_agg_double(i, y) AS k FROM t GROUP BY g, o)",
    "tuple_intersection_agg_integer": "(SELECT g, tuple_sketch_agg_integer(l, i) AS k FROM t GROUP BY g, o)",
    "kll_merge_agg_bigint": "(SELECT g, kll_sketch_agg_bigint(l) AS k FROM t GROUP BY g, o)",
    "kll_merge_agg_double": "(SELECT g, kll_sketch_agg_double(y) AS k FROM t GROUP BY g, o)",
    "kll_merge_agg_float": "(SELECT g, kll_sketch_agg_float(CAST(i AS float)) AS k FROM t GROUP BY g, o)",
}
"""What merges sketches gets some: the relation that makes them, with the column `k`."""

_PAIRS = ("(i, l)", "(y, x)", "(y, d12)", "(f, i)")
_OTHER_CALLS: Mapping[str, Sequence[str]] = {
    "approx_count_distinct": ("(s, 0.1)",),
    "approx_percentile": ("(i, 0.5)", "(y, array(0.1, 0.9), 100)", "(d12, 0.25)", "(dt, 0.5)", "(ts, 0.5)"),
    "percentile_approx": ("(i, 0.5)",),
    "approx_top_k": ("(s)", "(i, 2)", "(i, 10, 100)"),
    "bitmap_and_agg": ("(bn)",),
    "bitmap_or_agg": ("(bn)",),
    "bitmap_construct_agg": ("(bitmap_bit_position(i))",),
    "collect_union": ("(array(i, o))", "(split(s, ''))"),
    "count": ("(*)", "(1)", "(i, s)"),
    "count_if": ("(i > 1)", "(b)"),
    "count_min_sketch": ("(i, 0.5d, 0.5d, 1)", "(s, 0.5d, 0.5d, 1)"),
    "first": ("(i, true)",),
    "last": ("(i, true)",),
    "histogram_numeric": ("(i, 3)", "(y, 5)"),
    "listagg": (
        "(s, ',')",
        "(s) WITHIN GROUP (ORDER BY s DESC)",
        "(s, ',') WITHIN GROUP (ORDER BY s)",
        "(s, '-') WITHIN GROUP (ORDER BY o)",
        "(g, '-') WITHIN GROUP (ORDER BY id)",
    ),
    "max_by": ("(i, id)", "(s, o)", "(i, y)", "(y, x)", "(i, o, 2)", "(s, id, 3)", "(map('q', i), o)"),
    "min_by": ("(i, id)", "(s, o)", "(i, y)", "(y, x)", "(i, o, 2)", "(s, id, 3)", "(map('q', i), o)"),
    "mode": ("(i, true)", "() WITHIN GROUP (ORDER BY i)", "() WITHIN GROUP (ORDER BY s DESC)"),
    "percentile": ("(i, 0.3)", "(y, array(0.25, 0.75))", "(d12, 0.5)", "(i, 0.5, o)", "(dt - DATE'2024-01-01', 0.5)"),
    "percentile_cont": ("(0.25) WITHIN GROUP (ORDER BY i)", "(0.5) WITHIN GROUP (ORDER BY y DESC)"),
    "percentile_disc": ("(0.25) WITHIN GROUP (ORDER BY i)", "(0.5) WITHIN GROUP (ORDER BY y DESC)"),
    "kll_sketch_agg_bigint": ("(l)", "(i, 400)"),
    "kll_sketch_agg_double": ("(y)", "(y, 400)"),
    "kll_sketch_agg_float": ("(CAST(i AS float))",),
    "theta_sketch_agg": ("(i, 12)", "(s)"),
    "tuple_sketch_agg_double": ("(i, y)", "(s, y, 12, 'sum')"),
    "tuple_sketch_agg_integer": ("(l, i)", "(s, i, 12, 'max')"),
    "vector_avg": ("(array(CAST(i AS float), CAST(o AS float)))",),
    "vector_sum": ("(array(CAST(i AS float), CAST(o AS float)))",),
    "schema_of_variant_agg": ("(parse_json(to_json(struct(i, s))))",),
    "sum": ("(i + o)", "(coalesce(d8, 0))"),
}
_PAIRED = (
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
)
_CALLS = {**_OTHER_CALLS, **dict.fromkeys(_PAIRED, _PAIRS)}
"""Argument lists of the functions that take more than one column, or a constant."""

_READABLE: Mapping[str, str] = {
    "approx_top_k_accumulate": "approx_top_k_estimate({})",
    "approx_top_k_combine": "approx_top_k_estimate({})",
    "hll_sketch_agg": "hll_sketch_estimate({})",
    "hll_union_agg": "hll_sketch_estimate({})",
    "theta_sketch_agg": "theta_sketch_estimate({})",
    "theta_union_agg": "theta_sketch_estimate({})",
    "theta_intersection_agg": "theta_sketch_estimate({})",
    "kll_sketch_agg_bigint": "kll_sketch_get_quantile_bigint({}, 0.5)",
    "kll_sketch_agg_double": "kll_sketch_get_n_double({})",
}
"""What a sketch is read by, besides being a value itself."""

_MORE = ("vector_avg", "vector_sum", "schema_of_variant_agg")
"""Aggregates that the registry lists among other functions."""
_ELSEWHERE = ("grouping", "grouping_id", "measure")
"""Functions of grouping sets (see `shapes`), and one that only metric views have."""
_ALIKE = ("ti", "sm", "tn")
"""Columns of types that aggregates treat as they treat others."""
_FORMS: Mapping[str, str] = {
    "all": "SELECT {0} AS v FROM t_or_sketches",
    "filter": "SELECT g, {0} FILTER (WHERE only_some) AS v, count(*) AS n FROM t_or_sketches GROUP BY g",
    "distinct": "SELECT g, {1} AS v FROM t_or_sketches GROUP BY g",
    "distinct_filter_all": "SELECT {1} FILTER (WHERE only_some) AS v FROM t_or_sketches",
    "distinct_and_plain": "SELECT k, {1} AS v, {0} AS w FROM r GROUP BY k",
}
"""What a function may look like: 0 is its call, 1 its call over distinct values."""


def aggregate_functions(functions: Sequence[Function]) -> list[Function]:
    """The functions that take many rows."""
    return [one for one in functions if (one.group == AGGREGATES or one.name in _MORE) and one.name not in _ELSEWHERE]


def calls(function: Function, *, first: bool) -> list[str]:
    """Argument lists of a function; of another name for the same one, a single column that it takes."""
    if function.name in SKETCHES:
        return ["(k)"]
    columns = [column for column in COLUMNS if column not in _ALIKE]
    return [*(f"({column})" for column in columns if first), *_CALLS.get(function.name, ())]


def aggregate_cases(functions: Sequence[Function]) -> Iterator[Case]:
    """All cases; what Spark does not accept is dropped later."""
    for function, first in distinct(aggregate_functions(functions)):
        source = SKETCHES.get(function.name, "t")
        for call in calls(function, first=first):
            name = case_name("aggregate", function.name, call)
            sql = f"SELECT g, {function.name}{call} AS v FROM {source} GROUP BY g"
            yield Case(f"{name}_grouped", sql, function=function.name)
        if first:
            yield from _forms(function.name, source)
        else:
            name = case_name("aggregate", function.name, "another_name")
            yield _first_of(name, "SELECT g, {} AS v FROM t GROUP BY g", function.name, ("(y)", "(b)", "(s)", "(i)"))


def _forms(function: str, source: str) -> Iterator[Case]:
    made = ("(k)",) if source != "t" else _CALLS.get(function, ())
    ways = {"": (*made, "(y)", "(i)", "(b)", "(bn)"), "other": ("(d8)", "(s)", *made[1:])}
    only = "id % 3 > 0" if source == "t" else "g IS NOT NULL"
    for suffix, found in ways.items():
        if source != "t" and suffix:
            continue
        name = case_name("aggregate", function, suffix)
        for form, template in _FORMS.items():
            if (source == "t" or " r " not in template) and (not suffix or form in ("filter", "distinct")):
                sql = template.replace("t_or_sketches", source).replace("only_some", only)
                yield _first_of(f"{name}_{form}", sql, function, found)
        if function in _READABLE:
            sql = f"SELECT g, {_READABLE[function]} AS v FROM {source} GROUP BY g"
            yield _first_of(f"{name}_read", sql, function, found)


def _first_of(name: str, template: str, function: str, found: Sequence[str]) -> Case:
    """A case with the first of several argument lists that Spark takes."""
    made = [template.format(f"{function}{call}", f"{function}(DISTINCT {call[1:]}") for call in found]
    return Case(name, made[0], alternatives=tuple(made[1:]), function=function)
