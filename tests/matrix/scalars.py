"""Every other function of Spark's registry, called as in its documentation, with a column in place of a constant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tests.matrix.aggregates import aggregate_functions
from tests.matrix.cases import Case, case_name
from tests.matrix.functions import WINDOWS, Function

_LITERAL = re.compile(
    r"""(?P<typed>(?:\b(?:DATE|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|TIME|X)\s?'[^']*'))
      | (?P<interval>\bINTERVAL\s+-?(?:'[^']*'|\d+)\s+\w+(?:\s+TO\s+\w+)?)
      | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<number>(?<![\w.'$])-?\d+(?:\.\d+)?(?:[EeDLFS]\d*|BD)?(?![\w.]))
      | (?P<truth>\b(?:true|false)\b)""",
    re.VERBOSE | re.IGNORECASE,
)
_COLUMNS = {"string": "s", "number": "i", "truth": "b"}
"""The column whose values stand beside a constant of each kind."""

_TEMPLATES: Mapping[str, Sequence[str]] = {
    "mod": ("mod(i, 3)", "mod(x, y)"),
    "shiftleft": ("shiftleft(i, 2)",),
    "shiftright": ("shiftright(l, 2)",),
    "shiftrightunsigned": ("shiftrightunsigned(i, 2)",),
    "st_geogfromwkb": ("st_asbinary(st_geogfromwkb(unhex('0101000000000000000000F03F0000000000000040')))",),
    "!=": ("i != o", "s != g"),
    "<>": ("x <> y",),
    "<=>": ("x <=> f", "g <=> s"),
    "=": ("x = f", "s = g", "struct(i, s) = struct(o, g)"),
    "==": ("d8 == d12",),
    "<": ("x < y", "s < g"),
    ">": ("ts > tn",),
    "||": ("s || g", "array(i) || array(o)"),
    "case": ("CASE i WHEN 1 THEN 'one' WHEN NULL THEN 'none' ELSE s END",),
    "bigint": ("bigint(i)", "bigint(d8)"),
    "binary": ("binary(s)",),
    "boolean": ("boolean(i)",),
    "date": ("date(ts)",),
    "decimal": ("decimal(i)",),
    "double": ("double(d38)",),
    "float": ("float(i)", "float(y)"),
    "int": ("int(d8)", "int(y)"),
    "smallint": ("smallint(i)",),
    "string": ("string(x)", "string(f)", "string(ts)", "string(d38)", "string(bn)", "string(struct(i, s))"),
    "time": ("time(tn)",),
    "timestamp": ("timestamp(dt)",),
    "tinyint": ("tinyint(i)",),
    "cast": ("cast(i AS string)", "try_cast(s AS int)", "cast(x AS decimal(20,2))", "cast(y AS decimal(20,2))"),
    "and": ("b and i > 0",),
    "or": ("b or i > 0",),
    "not": ("not b",),
    "in": ("i in (1, 2, NULL)", "s in (g, 'a')", "i not in (1, 2)"),
    "+": ("i + o", "d8 + d12", "x + y", "dt + 1", "ts + INTERVAL '1' HOUR"),
    "-": ("i - o", "d38 - d12", "-x", "dt - DATE'2024-01-01'", "ts - TIMESTAMP'2024-01-01'"),
    "*": ("d8 * d12", "x * y"),
    "/": ("i / 3", "x / 0.5D", "d8 / 3"),
    "%": ("i % 3", "x % 3"),
    "greatest": ("greatest(x, y)", "greatest(s, g)", "greatest(i, o, k)"),
    "least": ("least(x, y)", "least(ts, tn)"),
    "coalesce": ("coalesce(i, o, 0)", "coalesce(s, g, '')"),
    "hash": ("hash(i, s, x)", "hash(f)", "hash(d38)"),
    "xxhash64": ("xxhash64(i, s, x)", "xxhash64(ts, bn, d8)"),
    "to_json": ("to_json(struct(i, s, d8, dt, x))",),
    "to_csv": ("to_csv(struct(i, s, d8))",),
    "to_xml": ("to_xml(struct(i, s))",),
    "named_struct": ("named_struct('q', i, 'w', s)",),
    "struct": ("struct(i, x, s)",),
    "array": ("array(i, o, NULL)", "array(x, y)"),
    "map": ("map('q', i, 'w', o)",),
    "collate": ("s collate UTF8_LCASE", "collation(s collate UNICODE_CI)"),
    "window": ("window(ts, '1 hour')", "window(ts, '1 hour', '30 minutes')"),
    "parse_json": ("parse_json(to_json(struct(i, s)))", "cast(parse_json(to_json(struct(i))) AS string)"),
    "variant_get": ("variant_get(parse_json(to_json(struct(i, s))), '$.i', 'int')",),
    "from_json": ("from_json(to_json(struct(i, s)), 'i INT, s STRING')", "from_json(s, 'map<string,int>')"),
    "from_csv": ("from_csv(concat(string(i), ',', string(o)), 'i INT, o INT')",),
    "element_at": ("element_at(array(i, o), 2)", "element_at(map('q', i), 'q')"),
    "map_from_arrays": ("map_from_arrays(array('q', 'w'), array(i, o))",),
    "str_to_map": ("str_to_map(concat('q:', string(i), ',w:', string(o)))",),
    "transform": ("transform(array(i, o), z -> z + 1)", "transform(array(i, o), (z, n) -> z + n)"),
    "aggregate": ("aggregate(array(i, o), 0, (a, z) -> a + coalesce(z, 0))",),
    "filter": ("filter(array(i, o), z -> z > 1)",),
    "sort_array": ("sort_array(array(x, y, f))", "sort_array(array(s, g), false)"),
    "array_distinct": ("array_distinct(array(x, y, -0.0D, 0.0D))",),
    "array_sort": ("array_sort(array(x, y, NULL))",),
    "explode": ("explode(array(i, o))", "explode(map('q', i))"),
    "round": ("round(d12, 1)", "round(y, 2)", "round(i, -1)"),
    "bround": ("bround(d12, 1)",),
    "date_format": ("date_format(ts, 'yyyy-MM-dd HH:mm:ss')",),
    "date_trunc": ("date_trunc('HOUR', ts)",),
    "extract": ("extract(YEAR FROM dt)", "extract(SECOND FROM ts)"),
    "pow": ("pow(i, 2)",),
    "sqrt": ("sqrt(abs(y))",),
    "concat": ("concat(s, g)", "concat(array(i), array(o))"),
    "concat_ws": ("concat_ws('-', s, g, NULL)",),
    "substring": ("substring(s, 1, 1)", "substring(bn, 1, 1)"),
    "regexp_replace": ("regexp_replace(s, '[ab]', 'z')",),
    "split": ("split(s, '')",),
    "format_string": ("format_string('%s-%s', s, i)",),
    "base64": ("base64(bn)",),
    "hex": ("hex(bn)", "hex(i)"),
    "sha2": ("sha2(bn, 256)",),
    "md5": ("md5(bn)",),
    "crc32": ("crc32(bn)",),
    "typeof": ("typeof(d38)",),
    "make_interval": ("make_interval(0, o, 0, i)", "string(make_interval(0, o, 0, i))"),
    "make_dt_interval": ("make_dt_interval(i, o)",),
    "make_ym_interval": ("make_ym_interval(i, o)",),
    "make_time": ("make_time(abs(i), 2, 3.5)",),
    "try_divide": ("try_divide(i, o - 1)", "try_divide(d8, i)"),
    "try_element_at": ("try_element_at(array(i), o)",),
    "nullif": ("nullif(x, 0.0D)", "nullif(s, '')"),
    "nanvl": ("nanvl(x, y)",),
    "isnan": ("isnan(x)",),
    "approx_top_k_estimate": (),
    "raise_error": ("if(id < 0, raise_error('never'), i)",),
    "assert_true": ("assert_true(id > 0)",),
    "st_asbinary": ("st_asbinary(st_geogfromwkb(if(k = 1, X'0101000000000000000000F03F0000000000000040', NULL)))",),
    "hll_sketch_estimate": (),
}
"""Calls with columns, beside those of the documentation."""

_QUERIES: Mapping[str, str] = {
    "approx_top_k_estimate": "SELECT g, approx_top_k_estimate(approx_top_k_accumulate(s)) AS v FROM t GROUP BY g",
    "hll_sketch_estimate": "SELECT g, hll_sketch_estimate(hll_sketch_agg(i)) AS v FROM t GROUP BY g",
    "hll_union": "SELECT g, hll_sketch_estimate(hll_union(hll_sketch_agg(i), hll_sketch_agg(o))) AS v FROM t GROUP "
    "BY g",
    "session_window": "SELECT g, session_window.start AS a, count(*) AS n FROM t GROUP BY g, session_window(ts, '1 "
    "hour')",
    "window": "SELECT g, window.start AS a, window.end AS z, count(*) AS n FROM t GROUP BY g, window(ts, '1 hour')",
    "window_time": "SELECT g, window_time(window) AS v, n FROM "
    "(SELECT g, window, count(*) AS n FROM t GROUP BY g, window(ts, '1 hour'))",
    "range": "SELECT t.id, q.id AS n FROM t JOIN range(3) AS q ON q.id = t.o",
    "collations": "SELECT t.id, c.name AS v FROM t JOIN collations() c ON c.name = t.s",
    "sql_keywords": "SELECT t.id, c.keyword AS v FROM t JOIN sql_keywords() c ON c.keyword = upper(t.s)",
    "stack": "SELECT id, q, w FROM t LATERAL VIEW stack(2, i, s, o, g) AS q, w",
    "inline": "SELECT id, q, w FROM t LATERAL VIEW inline(array(struct(i, s), struct(o, g))) AS q, w",
    "inline_outer": "SELECT id, q, w FROM t LATERAL VIEW OUTER inline(if(b, array(struct(i, s)), NULL)) AS q, w",
    "json_tuple": "SELECT id, q, w FROM t LATERAL VIEW json_tuple(to_json(struct(i, s)), 'i', 's') AS q, w",
    "variant_explode": "SELECT t.id, e.pos, cast(e.value AS string) AS v FROM t, "
    "LATERAL variant_explode(parse_json(to_json(array(i, o)))) e",
    "variant_explode_outer": "SELECT t.id, e.pos, cast(e.value AS string) AS v FROM t, "
    "LATERAL variant_explode_outer(parse_json(to_json(array(i, o)))) e",
    "schema_of_json": "SELECT id, schema_of_json('{\"q\": 1}') AS v FROM t",
}
"""Queries for functions that are no expressions, or need a sketch."""


def scalar_cases(functions: Sequence[Function]) -> Iterator[Case]:
    """All cases; of the ways to call a function by its documentation, the first that Spark runs is taken."""
    many = {function.name for function in aggregate_functions(functions)}
    for function in functions:
        if function.group == WINDOWS or function.name in many:
            continue
        name = case_name("scalar", function.name if function.name[0].isalnum() else _word(function))
        if function.name in _QUERIES:
            yield Case(f"{name}_query", _QUERIES[function.name], function=function.name)
        for number, call in enumerate(_TEMPLATES.get(function.name, ())):
            yield Case(f"{name}_{number}", f"SELECT id, {call} AS v FROM t", function=function.name)
        ways = list(_documented(function))
        if ways:
            yield Case(name, ways[0], alternatives=tuple(ways[1:]), function=function.name)


def _word(function: Function) -> str:
    """The name of an operator in letters; several of them may be the same expression."""
    last = function.implementation.rpartition(".")[2]
    signs = "".join(f"x{ord(character):x}" for character in function.name)
    return f"{last}_{signs}" if last and last != "None" else signs


def _documented(function: Function) -> Iterator[str]:
    """The examples of a function over rows of a topic: with columns where that goes, else with constants."""
    wide, plain = [], []
    for example in function.examples[:4]:
        expression = re.sub(r"^\s*SELECT\s+", "", example, flags=re.IGNORECASE)
        if re.search(r"\bFROM\s+(VALUES|\()|\bGROUP BY\b|^\*", expression, re.IGNORECASE):
            sketched = _sketched(expression)
            if sketched:
                wide.append(sketched)
            continue
        wide += _with_columns(expression)
        plain.append(f"SELECT id, {_aliased(expression)} FROM t")
    yield from (*wide, *plain)


def _aliased(expression: str) -> str:
    return expression if re.search(r"\)?\s+AS\s+\w+\s*$", expression, re.IGNORECASE) else f"{expression} AS v"


def _with_columns(expression: str) -> list[str]:
    """The expression with one of its constants after the other taken from a column in some rows."""
    made = []
    for match in _LITERAL.finditer(expression):
        kind, constant = str(match.lastgroup), match.group()
        beside = [column] if (column := _COLUMNS.get(kind)) else []
        for other in (*beside, "NULL"):
            value = f"if(k = 1, {constant}, {other})"
            changed = expression[: match.start()] + value + expression[match.end() :]
            made.append(f"SELECT id, {_aliased(changed)} FROM t")
    return made


def _sketched(expression: str) -> str | None:
    """An example over constant rows, over the columns of a topic instead; all its columns are whole numbers."""
    match = re.fullmatch(
        r"(?P<what>.*?)\s+FROM VALUES\s+(?P<rows>.*?)\s+(?:AS\s+)?\w+\((?P<names>[\w\s,]+)\)", expression, re.IGNORECASE
    )
    if match is None:
        return None
    names = [name.strip() for name in match["names"].split(",")]
    first = [value.strip() for value in match["rows"].split("),")[0].strip("( ").split(",")]
    given = []
    for number, name in enumerate(names):
        example = first[number] if number < len(first) else "1"
        column = ("i", "o", "k", "id")[number % 4]
        kind = "double" if "D" in example.upper() else "float" if "F" in example.upper() else "int"
        given.append(f"{'s' if chr(39) in example else f'CAST({column} AS {kind})'} AS {name}")
    return f"SELECT g, {match['what']} AS v FROM (SELECT g, {', '.join(given)} FROM t) GROUP BY g"
