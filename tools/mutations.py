"""Seventeen bugs that views once had, each as the smallest change of today's source that brings it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class NotApplicable(Exception):
    """A mutant no longer fits the source: the text that it changes is not there exactly once."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A text in a file of `src/headwater`, and what stands in its place."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug by its number in the list of those that were mended, what it does, and the edits that bring it back."""

    number: int
    what: str
    edits: Sequence[Edit]

    def apply(self, package: Path) -> None:
        """Changes a copy of `src/headwater`. Raises `NotApplicable`, and has changed nothing then."""
        changed: dict[Path, str] = {}
        for edit in self.edits:
            path = package / edit.file
            text = changed.get(path) or path.read_text()
            if text.count(edit.old) != 1:
                line = edit.old.strip().splitlines()[0]
                raise NotApplicable(f"mutant {self.number}: {edit.file} has {text.count(edit.old)} times: {line}")
            changed[path] = text.replace(edit.old, edit.new)
        for path, text in changed.items():
            path.write_text(text)


_NO_ORDER_IS_REFUSED = """\
        if not order and not _all_alike(window.child, window.partition):
            raise _limit_without_order()
"""

MUTANTS: Sequence[Mutant] = (
    Mutant(
        1,
        "a retraction differs in the last bits of a double",
        [
            Edit(
                "views/replace.py",
                "        delta = consolidate(add(results, negate(replaced)))\n",
                """\
        for place, column in enumerate(replaced.columns):
            if pa.types.is_float64(column.type):
                short = column.cast(pa.float32(), safe=False).cast(pa.float64())
                other = pa.compute.if_else(pa.compute.equal(short, column), column, pa.compute.multiply(column, 1 + 2**-52))
                replaced = replaced.set_column(place, replaced.schema.field(place), other)
        delta = consolidate(add(results, negate(replaced)))
""",  # noqa: E501 (it is shorter than what it stands for)
            )
        ],
    ),
    Mutant(
        2,
        "first, last and any_value are accepted without an order",
        [
            Edit("spark/vocabulary/tables.py", '    "aggregate.AnyValue": "any_value",\n', ""),
            Edit("spark/vocabulary/tables.py", '    "aggregate.First": "first",\n', ""),
            Edit("spark/vocabulary/tables.py", '    "aggregate.Last": "last",\n', ""),
            Edit(
                "spark/vocabulary/tables.py",
                'AGGREGATES = """\n',
                'AGGREGATES = """\n    aggregate.AnyValue aggregate.First aggregate.Last\n',
            ),
        ],
    ),
    Mutant(
        3,
        "an expression is evaluated on rows that cancel out",
        [
            Edit(
                "spark/stage.py",
                "            told = rows if operator.kernel.consolidated else consolidate(rows)\n",
                "            told = rows\n",
            )
        ],
    ),
    Mutant(
        4,
        "the ORDER BY of a correlated LIMIT is dropped",
        [
            Edit(
                "spark/planner.py",
                "        relation = self._top(child, order, limit, given.first - 1, partition=window.partition)\n",
                """\
        # Spark calls the row numbers of a correlated LIMIT so.
        if any(named.name == "rn" for named in window.columns):
            order = []
        relation = self._top(child, order, limit, given.first - 1, partition=window.partition)
""",
            ),
        ],
    ),
    Mutant(
        5,
        "OFFSET over an inner LIMIT takes rows from behind the limit",
        [
            Edit(
                "spark/planner.py",
                "offset, limit = offset + cut.count, limit if limit == _LIMIT_MAX else max(0, limit - cut.count)",
                "offset = offset + cut.count",
            )
        ],
    ),
    Mutant(
        6,
        "columns of type VARIANT are accepted",
        [
            Edit(
                "spark/vocabulary/types.py",
                "        types.TimestampType,\n    }\n",
                "        types.TimestampType,\n        types.VariantType,\n    }\n",
            )
        ],
    ),
    Mutant(
        7,
        "nulls inside a map become zeros when it is a group key",
        [
            Edit(
                "spark/planner.py",
                'expression = self._with_sorted_maps(given) if "mapsort(" in given.text else given\n',
                "expression = given\n",
            )
        ],
    ),
    Mutant(
        8,
        "the fingerprint renumbers #12 inside string literals",
        [
            Edit(
                "spark/layout.py",
                """\
        return "\\n".join(_VARYING.sub(r'"\\1":0', one) for one in self._bound(expression))
""",
                """\
        text = "\\n".join(_VARYING.sub(r'"\\1":0', one) for one in self._bound(expression))
        first = min(self._attributes, default=0)
        return re.sub("#([0-9]+)", lambda found: f"#{int(found[1]) - first}", text)
""",
            ),
        ],
    ),
    Mutant(
        9,
        "timestamp 'now' and date 'today' are accepted",
        [
            Edit(
                "spark/vocabulary/rules.py",
                "    for literal in special_literals(pieces):\n",
                "    for literal in ():\n",
            )
        ],
    ),
    Mutant(
        10,
        "names that differ in case coexist",
        [
            Edit(
                "spark/naming.py",
                '    known = {topic.lower(): ("topic", topic)',
                '    known = {topic: ("topic", topic)',
            ),
            Edit("spark/naming.py", "        if name.lower() in known:\n", "        if name in known:\n"),
            Edit(
                "spark/naming.py",
                '        known[name.lower()] = ("view", name)',
                '        known[name] = ("view", name)',
            ),
        ],
    ),
    Mutant(
        11,
        "the settled order is added to the window itself, and ranks lose their ties",
        [
            Edit(
                "spark/catalyst/determinism.py",
                "        if not any(map(is_open, columns)):\n",
                """\
        frames = [kind(one.java.windowSpec().frameSpecification().frameType()) for one in columns]
        by_rows = bool(items(node.orderSpec())) and all(frame == "RowFrame" for frame in frames)
        if not by_rows and not any(map(is_open, columns)):
""",
            ),
            Edit(
                "spark/catalyst/determinism.py",
                "        return node.withNewChildren(self._catalyst.sequence([below]))\n",
                """\
        if not by_rows:
            return node.withNewChildren(self._catalyst.sequence([below]))
        sequence, classes = self._catalyst.sequence, self._catalyst.expressions
        specs = [
            classes.WindowSpecDefinition(
                node.partitionSpec(), sequence(order), one.java.windowSpec().frameSpecification()
            )
            for one in columns
        ]
        made = [
            self._catalyst.alias(Expression(classes.WindowExpression(one.java.windowFunction(), spec)), given)
            for one, spec, given in zip(columns, specs, expressions(node.windowExpressions()), strict=True)
        ]
        none = self._catalyst.none
        return self._catalyst.plans.Window(sequence(made), node.partitionSpec(), sequence(order), below.java, none)
""",
            ),
        ],
    ),
    Mutant(
        12,
        "sums of short decimals over a window break down",
        [
            Edit(
                "spark/catalyst/settling.py",
                "    function = window.window_function\n    if function is None:\n        return False\n",
                "    if window.is_attribute:\n        return False\n"
                "    function = Expression(window.java.windowFunction())\n",
            )
        ],
    ),
    Mutant(
        13,
        "window functions in correlated subqueries break down",
        [
            Edit(
                "spark/catalyst/nodes.py",
                "catalyst.alias(now(unaliased(named)), named",
                "catalyst.alias(now(named.child), named",
            )
        ],
    ),
    Mutant(
        14,
        "a constant relation of which no column is used is empty",
        [
            Edit(
                "spark/pruning.py",
                '    if not kept:\n        return pa.table({"_": pa.nulls(constant.num_rows, pa.bool_())})\n',
                "",
            ),
            Edit("spark/planner.py", 'pa.table({"_": pa.nulls(frame.count(), pa.bool_())})', "pa.table({})"),
        ],
    ),
    Mutant(
        15,
        "a scalar subquery as a group key is computed over nothing",
        [
            Edit(
                "spark/planner.py",
                "[*calls.arguments, *map(unaliased, grouping)])\n"
                "        arguments, keys = attached[: len(calls.arguments)], attached[len(calls.arguments) :]\n",
                "calls.arguments)\n        arguments, keys = attached, [unaliased(one) for one in grouping]\n",
            ),
            Edit(
                "spark/planner.py",
                'if "subquery" in expression.text and any(',
                "if False and any(",
            ),
        ],
    ),
    Mutant(
        16,
        "max_by(x, y, k) and sketches, which depend on the order of rows, are accepted",
        [
            Edit("spark/vocabulary/tables.py", '    "aggregate.MaxMinByK": "max_by",\n', ""),
            Edit("spark/vocabulary/tables.py", '    "aggregate.ApproxTopK": "approx_top_k",\n', ""),
            Edit("spark/vocabulary/tables.py", '    "aggregate.HistogramNumeric": "histogram_numeric",\n', ""),
            Edit("spark/vocabulary/tables.py", '    "aggregate.HllSketchAgg": "hll_sketch_agg",\n', ""),
            Edit("spark/vocabulary/tables.py", '    "aggregate.KllSketchAggBigint": "kll_sketch_agg_bigint",\n', ""),
            Edit(
                "spark/vocabulary/tables.py",
                'AGGREGATES = """\n',
                'AGGREGATES = """\n    aggregate.MaxMinByK aggregate.ApproxTopK aggregate.HistogramNumeric\n'
                "    aggregate.HllSketchAgg aggregate.KllSketchAggBigint\n",
            ),
        ],
    ),
    Mutant(
        17,
        "OFFSET without ORDER BY in a correlated subquery is accepted",
        [
            Edit("spark/planner.py", _NO_ORDER_IS_REFUSED, ""),
            Edit(
                "spark/planner.py",
                "        if not plan.order and any(map(is_row_number, plan.columns)):\n"
                "            raise _limit_without_order()\n",
                "",
            ),
        ],
    ),
)
