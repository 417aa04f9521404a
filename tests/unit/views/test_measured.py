"""An aggregate whose rows come with their measures gives what one gives that is shown the arguments."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa

from headwater.views.aggregate import Aggregate, Function
from headwater.views.frontier import NO_TIME
from headwater.views.zset import HASH, WEIGHT, add, consolidate

ROWS = pa.schema([("k", pa.string()), ("v", pa.int64())])
FUNCTIONS = (
    Function("count", (), "rows", pa.int64()),
    Function("count", ("v",), "values", pa.int64()),
    Function("sum", ("v",), "total", pa.int64()),
)
PLAIN = Aggregate(("k",), FUNCTIONS, ROWS)
MEASURED = Aggregate(("k",), FUNCTIONS, ROWS, measured=True)
Row = tuple[str, int | None, int]


def plain(rows: list[Row]) -> pa.Table:
    hashes, keys, values, weights = [hash(k) for k, _, _ in rows], *zip(*rows, strict=True)
    return pa.table({HASH: hashes, "k": keys, "v": pa.array(values, pa.int64()), WEIGHT: weights})


def measured(rows: list[Row], *, summed: bool) -> pa.Table:
    """Counts and limbs of each row, times the weight, and perhaps added up."""
    names = [name for name in MEASURED.ports["rows"].names if name != "k"]
    made = [
        (hash(k), k, *(part * w for part in (v is not None, v is not None, (v or 0) & 0xFFFFFFFF, (v or 0) >> 32)), w)
        for k, v, w in rows
    ]
    table = pa.table(dict(zip([HASH, "k", *names, WEIGHT], zip(*made, strict=True), strict=True)))
    return consolidate(table, (*names, WEIGHT)) if summed else table


def test_measures_are_as_good_as_arguments() -> None:
    dice = random.Random(1)
    held: list[Row] = []
    states = [{"groups": consolidate(_none(kernel))} for kernel in (PLAIN, MEASURED, MEASURED)]
    for _ in range(30):
        changes: list[Row] = [
            (dice.choice("abc"), dice.choice([None, 1, -1, 2**40, -(2**40)]), 1) for _ in range(dice.randrange(1, 6))
        ]
        gone = dice.sample(held, min(len(held), dice.randrange(4)))
        for row in gone:
            held.remove(row)
        held += changes
        changes += [(k, v, -w) for k, v, w in gone]
        given = [plain(changes), measured(changes, summed=False), measured(changes, summed=True)]
        outputs = []
        for number, kernel in enumerate((PLAIN, MEASURED, MEASURED)):
            step = kernel.step(states[number], {"rows": given[number]}, NO_TIME)
            total = add(states[number]["groups"], step.state["groups"])
            states[number] = {"groups": consolidate(total, kernel.parts["groups"].measures)}
            outputs.append(sorted(map(repr, consolidate(step.out).to_pylist())))
        assert outputs[0] == outputs[1] == outputs[2]


def test_rows_that_are_added_up_have_the_measures_of_their_sum() -> None:
    dice = random.Random(2)
    for size in (0, 1, 50):
        rows: list[Row] = [
            (dice.choice("abc"), dice.choice([None, 1, -1, 2**40, -(2**40)]), dice.choice([1, 1, -1, 3]))
            for _ in range(size)
        ]
        columns = [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.int64())]
        given = pa.table(columns, schema=ROWS).append_column(WEIGHT, pa.array([row[2] for row in rows], pa.int64()))
        found = MEASURED.summed(given)
        expected = measured(rows, summed=True).drop_columns([HASH]).to_pylist() if rows else []
        measures = [name for name in found.column_names if name != "k"]
        assert sorted(map(repr, consolidate(found, measures).to_pylist())) == sorted(map(repr, expected))


def test_rows_without_a_key_are_added_up_to_one() -> None:
    everything = Aggregate((), FUNCTIONS, ROWS, measured=True)
    rows = pa.table({"k": ["a", "b", "b"], "v": pa.array([1, None, 5], pa.int64()), WEIGHT: [1, 1, 2]})
    assert [row[WEIGHT] for row in everything.summed(rows).to_pylist()] == [4]


def test_wide_decimals_are_added_up() -> None:
    wide = pa.schema([("k", pa.string()), ("v", pa.decimal128(38, 2))])
    kernel = Aggregate(("k",), (Function("sum", ("v",), "total", pa.decimal128(38, 2)),), wide, measured=True)
    most = Decimal("999999999999999999999999999999999999.99")
    rows = pa.table(
        {"k": ["a", "a", "a"], "v": pa.array([most, most, Decimal("0.01")], wide.field("v").type), WEIGHT: [1, -1, 1]}
    )
    given = kernel.summed(rows)
    hashed = pa.table([pa.array([0]), *given.columns], names=[HASH, *given.column_names])
    step = kernel.step({"groups": _none(kernel)}, {"rows": hashed}, NO_TIME)
    assert step.out["total"].to_pylist() == [Decimal("0.01")]


def _none(kernel: Aggregate) -> pa.Table:
    names = [HASH, "k", *kernel.parts["groups"].measures]
    return pa.schema([(name, pa.string() if name == "k" else pa.int64()) for name in names]).empty_table()
