"""What a plan may say, and what is refused with which words."""

from __future__ import annotations

import json

import pytest

from headwater.errors import UnsupportedQuery
from headwater.spark.vocabulary import (
    Kind,
    check,
    classify,
    classify_registered,
    tables,
    unorderable,
)
from tests.unit.spark.vocabulary.plans import (
    EXPRESSIONS,
    PLANS,
    Nodes,
    aggregate,
    column,
    expression,
    literal,
    node,
    over_window,
    select,
)


def refusal(*expressions: Nodes, sql: str = "") -> UnsupportedQuery:
    with pytest.raises(UnsupportedQuery) as raised:
        check(select(*expressions), sql)
    return raised.value


def accept(*expressions: Nodes, sql: str = "") -> None:
    check(select(*expressions), sql)


def test_no_class_is_classified_twice() -> None:
    scalars = " ".join(tables.SCALARS.values()).split()
    named = [
        name
        for table in (
            tables.SETTLED, tables.ORDER, tables.CLOCK, tables.CHANCE, tables.ENVIRONMENT, tables.UNSTABLE,
            tables.COLLATION,
        )
        for name in table
    ]  # fmt: skip
    every = [*scalars, *tables.AGGREGATES.split(), *tables.PEERS.split(), *named]
    assert sorted(every) == sorted(set(every))


def test_an_expression_that_nobody_has_classified_is_refused() -> None:
    assert classify(EXPRESSIONS + "Frobnicate") is None
    found = refusal(expression("Frobnicate", column()))
    assert str(found) == (
        "Spark's expression Frobnicate is not supported in a view: nothing is known about what its value depends on."
    )
    assert found.hint == "Register a function with app.function."


def test_a_class_of_another_package_is_not_classified() -> None:
    assert classify("org.example.Upper") is None
    assert classify(PLANS + "Upper") is None
    assert classify_registered(PLANS + "Range") is Kind.DETERMINISTIC
    assert classify_registered(PLANS + "PythonWorkerLogs") is Kind.ENVIRONMENT
    assert classify_registered(PLANS + "Frobnicate") is None


def test_a_builder_is_classified_by_what_it_builds() -> None:
    assert classify_registered(EXPRESSIONS + "NowExpressionBuilder") is Kind.CLOCK
    assert classify_registered(EXPRESSIONS + "CurDateExpressionBuilder") is Kind.CLOCK
    assert classify_registered(EXPRESSIONS + "aggregate.MaxByBuilder") is Kind.SETTLED
    assert classify_registered(EXPRESSIONS + "aggregate.TrySumExpressionBuilder") is Kind.ORDER
    assert classify_registered(EXPRESSIONS + "FrobnicateExpressionBuilder") is None


def test_what_depends_on_the_log_alone_is_accepted() -> None:
    accept(expression("Upper", column()), aggregate("aggregate.Sum"), over_window(expression("Rank")))


@pytest.mark.parametrize(
    ("name", "construct", "hint"),
    [
        (
            "CurrentTimestamp",
            "current_timestamp()",
            "Compare with now(), the log's clock: WHERE at > now() - INTERVAL 10 MINUTES.",
        ),
        ("Rand", "rand()", "Compute it where the record is made, and append it as a column."),
        ("MonotonicallyIncreasingID", "monotonically_increasing_id()", "Use the columns of the record."),
        ("CurrentUser", "current_user()", "Compute it where the record is made, and append it as a column."),
        ("CallMethodViaReflection", "reflect()", "Register a function with app.function."),
        ("VariableReference", "a variable of the session", "Write the value itself."),
    ],
)
def test_what_is_not_of_the_log_is_refused(name: str, construct: str, hint: str) -> None:
    found = refusal(expression("Upper", expression(name)))
    assert (found.construct, found.detail, found.hint) == (construct, "its value is not a function of the log", hint)


def test_a_clock_is_named_after_the_function_that_reads_it() -> None:
    assert refusal(expression("UnixTimestamp", expression("CurrentTimestamp"))).construct == "unix_timestamp()"
    accept(expression("UnixTimestamp", column()))


def test_a_function_is_named_as_the_query_calls_it() -> None:
    assert refusal(aggregate("aggregate.First"), sql="SELECT first_value(x)").construct == (
        "first_value() without an order"
    )
    assert refusal(aggregate("aggregate.First"), sql="SELECT first(x)").construct == "first() without an order"
    assert refusal(expression("CurrentUser"), sql="SELECT user()").construct == "user()"


@pytest.mark.parametrize("name", ["First", "Last", "AnyValue", "CollectUnion", "MaxMinByK"])
def test_what_depends_on_the_order_of_rows_is_accepted_in_a_window_only(name: str) -> None:
    given = aggregate(f"aggregate.{name}", reverse=True)
    found = refusal(given)
    assert found.hint
    assert "order" in f"{found.construct} {found.detail}"
    accept(over_window(given))


def test_the_first_of_several_is_told_from_the_last() -> None:
    assert refusal(aggregate("aggregate.MaxMinByK", reverse=True)).construct == "min_by() of several values"
    assert refusal(aggregate("aggregate.MaxMinByK", reverse=False)).construct == "max_by() of several values"


@pytest.mark.parametrize("name", [name for name in tables.UNSTABLE if name.startswith("aggregate.")])
def test_a_sketch_is_refused_in_a_window_too(name: str) -> None:
    for given in (aggregate(name), over_window(aggregate(name))):
        found = refusal(given)
        assert found.construct == f"{tables.UNSTABLE[name]}()"
        assert found.detail == "its result depends on the order of rows or on chance"
        assert found.hint


def test_a_list_needs_an_order() -> None:
    open_list = aggregate("aggregate.ListAgg", column(), orderExpressions=[])
    assert refusal(open_list).hint == "Say in which order: listagg(...) WITHIN GROUP (ORDER BY ...)."
    accept(aggregate("aggregate.ListAgg", column(), column(), orderExpressions=[1]))
    accept(over_window(open_list))


def test_a_mode_needs_an_order() -> None:
    assert refusal(aggregate("aggregate.Mode")).construct == "mode() without an order"
    accept(aggregate("aggregate.Mode", reverseOpt=False), over_window(aggregate("aggregate.Mode")))


def encryption(mode: str, start: Nodes) -> Nodes:
    parts = (column(), literal("key"), literal(mode), literal("DEFAULT"), start, literal("", "binary"))
    return expression("AesEncrypt", *parts, input=0, key=1, mode=2, padding=3, iv=4, aad=5)


def test_an_encryption_needs_a_start() -> None:
    assert refusal(encryption("GCM", literal("", "binary"))).construct == (
        "aes_encrypt() with a random initialization vector"
    )
    assert refusal(encryption("CBC", column("iv"))).hint.startswith("Give it one")
    accept(encryption("ecb", literal("", "binary")), encryption("CBC", expression("Unhex", literal("00"))))


def test_a_function_of_the_application_is_accepted_if_it_is_one_of_rows() -> None:
    accept(expression("PythonUDF", column(), name="shout", udfDeterministic=True, evalType=250))
    open_function = expression("PythonUDF", column(), name="dice", udfDeterministic=False, evalType=250)
    assert refusal(open_function).construct == "dice()"
    grouped = expression("PythonUDF", column(), name="total", udfDeterministic=True, evalType=252)
    assert refusal(grouped).construct == "total()"


def test_a_collation_is_refused_wherever_it_comes_from() -> None:
    assert refusal(expression("Collate", column(), expression("ResolvedCollation"))).construct == "COLLATE"
    assert refusal(expression("Cast", column(), dataType="string collate UTF8_LCASE")).construct == "COLLATE"
    schema = {"type": "struct", "fields": [{"name": "a", "type": "string collate UTF8_LCASE"}]}
    assert refusal(expression("JsonToStructs", column(), schema=schema)).hint == "Compare lower(...) with lower(...)."
    accept(literal("a collate b"), expression("Cast", column(), dataType="string"))


def test_a_sample_is_refused() -> None:
    with pytest.raises(UnsupportedQuery, match="TABLESAMPLE is not supported"):
        check(f'[{{"class": "{PLANS}Sample", "num-children": 0}}]', "")


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("SELECT try_sum(x)", "try_sum()"),
        ("SELECT system.builtin.`Try_Avg` (x)", "try_avg()"),
        ("SELECT * FROM VALUES (version())", "version() in VALUES"),
        ("SELECT * FROM VALUES (aes_encrypt('a', 'k'))", "aes_encrypt() in VALUES"),
        ("SELECT timestamp 'now'", "the literal timestamp 'now'"),
    ],
)
def test_what_a_plan_does_not_show_is_found_in_the_text(sql: str, construct: str) -> None:
    assert refusal(column(), sql=sql).construct == construct


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'try_sum(x)', \"timestamp 'now'\" -- version() in VALUES",
        "WITH version(a) AS (SELECT 1) SELECT a FROM version",
        "SELECT try_sum FROM t",
    ],
)
def test_what_only_looks_like_it_is_accepted(sql: str) -> None:
    accept(column(), sql=sql)


def test_a_function_that_is_in_the_plan_was_not_computed_in_values() -> None:
    accept(encryption("ECB", literal("", "binary")), sql="SELECT aes_encrypt(x, 'k', 'ECB') FROM t, VALUES (1)")


def test_what_cannot_be_compared_is_refused_with_its_type() -> None:
    found = unorderable("collect_list", "map<string,int>")
    assert str(found) == (
        "collect_list() is not supported in a view: values of type map<string,int> cannot be put in order."
    )


def test_a_node_is_read_with_its_expressions() -> None:
    plan = node("Filter", node("Range"), condition=expression("GreaterThan", expression("Uuid"), literal("a")))
    with pytest.raises(UnsupportedQuery, match=r"uuid\(\) is not supported"):
        check(json.dumps(plan), "")
