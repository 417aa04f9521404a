"""Every window function, and every aggregate as one, over every kind of frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.matrix.aggregates import SKETCHES, aggregate_functions, calls
from tests.matrix.cases import Case, case_name
from tests.matrix.functions import WINDOWS, Function, distinct

OVERS: Mapping[str, str] = {
    "all": "",
    "partition": "PARTITION BY g",
    "ordered": "ORDER BY id",
    "ordered_with_ties": "ORDER BY o",
    "partition_ordered": "PARTITION BY g ORDER BY id",
    "partition_with_ties": "PARTITION BY g ORDER BY o",
    "rows": "PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "rows_with_ties": "PARTITION BY g ORDER BY o ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "rows_without_order": "PARTITION BY g ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "range": "PARTITION BY g ORDER BY o RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
    "range_ahead": "ORDER BY o DESC NULLS LAST RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING",
    "whole_with_ties": "PARTITION BY k ORDER BY o ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "range_whole": "PARTITION BY k ORDER BY y RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}
"""What may stand in the parentheses of OVER."""

TYPED_OVERS: Mapping[str, str] = {
    "by_double": "PARTITION BY g ORDER BY x",
    "by_double_range": "PARTITION BY g ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "by_plain_double_range": "PARTITION BY g ORDER BY y RANGE BETWEEN 250 PRECEDING AND 250 FOLLOWING",
    "by_decimal_range": "PARTITION BY g ORDER BY d12 RANGE BETWEEN 1.5 PRECEDING AND CURRENT ROW",
    "by_date_range": "PARTITION BY g ORDER BY dt RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW",
    "by_timestamp_range": "PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW",
    "by_string": "PARTITION BY k ORDER BY s DESC NULLS LAST",
    "by_two": "PARTITION BY g, k ORDER BY o DESC, s",
    "by_double_partition": "PARTITION BY x ORDER BY id",
    "by_decimal_partition": "PARTITION BY d8 ORDER BY o",
    "by_expression": "PARTITION BY i % 2 ORDER BY o + k",
    "by_struct_partition": "PARTITION BY struct(g, k) ORDER BY struct(o, id)",
    "by_boolean": "PARTITION BY b ORDER BY dt, id",
    "rows_behind": "PARTITION BY g ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    "rows_ahead": "PARTITION BY g ORDER BY id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "range_behind": "PARTITION BY g ORDER BY o RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "range_to_the_end": "PARTITION BY g ORDER BY o RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
}
"""Orders and partitions of other types, and other bounds, for a few functions."""

_WINDOW_CALLS: Mapping[str, Sequence[str]] = {
    "lag": ("(i)", "(s, 2)", "(y, 1, 0)", "(i) IGNORE NULLS"),
    "lead": ("(i)", "(s, 2)", "(y, 1, 0)", "(i) IGNORE NULLS"),
    "nth_value": ("(i, 2)", "(s, 1)", "(i, 1) IGNORE NULLS"),
    "ntile": ("(3)",),
    "counter_diff": ("(abs(i))", "(abs(l))"),
}
_VALUES: Mapping[str, Sequence[str]] = {
    "sum": ("(i)", "(d8)", "(d12)", "(d38)", "(x)", "(y)"),
    "avg": ("(i)", "(d8)", "(d12)", "(x)", "(y)"),
    "count": ("(*)", "(s)"),
    "min": ("(i)", "(x)", "(s)", "(array(i, o))"),
    "max": ("(y)", "(d8)", "(ts)"),
    "first_value": ("(i)", "(s) IGNORE NULLS"),
    "last_value": ("(i)", "(s) IGNORE NULLS"),
    "any_value": ("(i)",),
    "collect_list": ("(i)", "(s)"),
    "collect_set": ("(i)",),
    "stddev": ("(y)", "(i)"),
    "listagg": ("(s)",),
}
"""Arguments of the aggregates that people use in windows; the others get the first few that they take."""
_NOBODY = Function("", "", "", ())
_FEW = ("all", "partition", "partition_with_ties", "rows", "range")


def window_cases(functions: Sequence[Function]) -> Iterator[Case]:
    """All cases; what Spark does not accept is dropped later."""
    for function in functions:
        if function.group == WINDOWS:
            for number, call in enumerate(_WINDOW_CALLS.get(function.name, ("()",))):
                yield from _over(function.name, call, OVERS if number == 0 else _chosen(_FEW))
    for function, first in distinct(aggregate_functions(functions)):
        if function.name in _VALUES:
            for number, call in enumerate(_VALUES[function.name]):
                yield from _over(function.name, call, OVERS if number == 0 else _chosen(_FEW))
        elif first and function.name not in SKETCHES:
            yield from _first_over(function, _chosen(_FEW))
    for name, call in (("sum", "(i)"), ("rank", "()"), ("row_number", "()"), ("collect_list", "(id)")):
        yield from _over(name, call, TYPED_OVERS)
    yield from _several()


def _chosen(names: Sequence[str]) -> Mapping[str, str]:
    return {name: OVERS[name] for name in names}


def _values(function: Function) -> list[str]:
    """Arguments that a function may take: those made for it, then columns."""
    made = [call for call in calls(function, first=False) if call not in calls(_NOBODY, first=True)]
    return [*made[:1], "(y)", "(i)", "(b)", "(bn)"]


def _first_over(function: Function, overs: Mapping[str, str]) -> Iterator[Case]:
    """A function over frames, with the first arguments that it takes."""
    for name, over in overs.items():
        made = [f"SELECT id, {function.name}{call} OVER ({over}) AS v FROM t" for call in _values(function)]
        title = case_name("window", function.name, name)
        yield Case(title, made[0], alternatives=tuple(made[1:]), function=function.name)


def _over(function: str, call: str, overs: Mapping[str, str]) -> Iterator[Case]:
    for name, over in overs.items():
        sql = f"SELECT id, {function}{call} OVER ({over}) AS v FROM t"
        yield Case(case_name("window", function, call, name), sql, function=function)


def _several() -> Iterator[Case]:
    """Several windows in one view, over streams, filtered by, and one above the other."""
    over = "PARTITION BY g ORDER BY o"
    for name, sql in {
        "two_orders": f"SELECT id, rank() OVER ({over}) AS a, row_number() OVER (PARTITION BY g ORDER BY id) AS b "
        f"FROM t",
        "rank_and_rows": f"SELECT id, rank() OVER ({over}) AS a, dense_rank() OVER ({over}) AS b, "
        f"percent_rank() OVER ({over}) AS c, cume_dist() OVER ({over}) AS d, ntile(2) OVER (PARTITION BY g ORDER BY "
        f"o, id) "
        "AS e FROM t",
        "named": "SELECT id, sum(i) OVER w AS a, avg(d8) OVER w AS b, max(s) OVER w AS c FROM t "
        "WINDOW w AS (PARTITION BY g ORDER BY id)",
        "stream": "SELECT id, g, sum(i) OVER (PARTITION BY g) AS v FROM r",
        "stream_rank": f"SELECT id, g, o, rank() OVER ({over}) AS v FROM r",
        "difference": "SELECT id, i - lag(i, 1, 0) OVER (ORDER BY id) AS v FROM t",
        "share": "SELECT id, d12 / sum(d12) OVER (PARTITION BY g) AS v FROM t WHERE d12 > 0",
        "filter": "SELECT id, sum(i) FILTER (WHERE b) OVER (PARTITION BY g) AS v FROM t",
        "filter_ordered": "SELECT id, count(*) FILTER (WHERE i > 0) OVER (PARTITION BY g ORDER BY id) AS v FROM t",
        "nested": "SELECT id, sum(v) OVER (PARTITION BY k) AS w FROM "
        "(SELECT id, k, rank() OVER (PARTITION BY g ORDER BY o) AS v FROM t)",
        "distinct_over": "SELECT DISTINCT g, sum(i) OVER (PARTITION BY g) AS v FROM t",
    }.items():
        yield Case(case_name("window", name), sql)
    for function in ("rank", "dense_rank", "row_number", "percent_rank", "cume_dist"):
        for number, condition in enumerate(("= 1", "<= 2", "< 0.5")):
            sql = f"SELECT id, g, o FROM t QUALIFY {function}() OVER (PARTITION BY g ORDER BY o) {condition}"
            yield Case(case_name("window", "qualify", function, number), sql)
            sql = (
                f"SELECT id, g, v FROM (SELECT id, g, {function}() OVER (PARTITION BY g ORDER BY o DESC) AS v FROM t) "
                f"WHERE v {condition}"
            )
            yield Case(case_name("window", "top", function, number), sql)
