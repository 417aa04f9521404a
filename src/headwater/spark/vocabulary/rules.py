"""Whether a view may be made of the expressions in its plan: what is refused, and what to write instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from headwater.errors import UnsupportedQuery
from headwater.spark.vocabulary import tables
from headwater.spark.vocabulary.kinds import Kind, classify
from headwater.spark.vocabulary.lexer import Token, called, tokens
from headwater.spark.vocabulary.moments import casts_special, special_literals
from headwater.spark.vocabulary.tree import Tree, read

_NOT_OF_THE_LOG = "its value is not a function of the log"
_TIME = "Use a column with a time, or append clock ticks to a topic."
_CHANCE = "Compute it where the record is made, and append it as a column."
_COLUMNS = "Use the columns of the record."
_FUNCTION = "Register a function with app.function."
_BY_ORDER = "its result depends on the order of rows"
_FIRST = "Say which row is meant: min_by(value, order), or first_value(...) OVER (... ORDER BY ...)."
_LAST = "Say which row is meant: max_by(value, order), or last_value(...) OVER (... ORDER BY ...)."
_ANY = "Say which value is meant: min(value) or max(value)."
_SKETCH = "Count exactly: count(DISTINCT ...) and GROUP BY cost the same here."
_PERCENTILE = "percentile(...) is exact, and costs the same here."
_VECTOR = "Take the elements apart with posexplode, and sum them up as doubles."
_MOMENT = "Write the date or the time itself, or use a column with a time."
_COLLATION = "Compare lower(...) with lower(...)."

_HINTS: dict[Kind, str] = {
    Kind.CLOCK: _TIME,
    Kind.CHANCE: _CHANCE,
    Kind.ENVIRONMENT: _CHANCE,
    Kind.UNSTABLE: _SKETCH,
    Kind.COLLATION: _COLLATION,
}
_HINTS_BY_NAME = {
    "CallMethodViaReflection": _FUNCTION,
    "CurrentTimeZone": "Name the time zone.",
    "FromAvro": _FUNCTION,
    "FromProtobuf": _FUNCTION,
    "KllSketchMergeBigint": _CHANCE,
    "KllSketchMergeDouble": _CHANCE,
    "KllSketchMergeFloat": _CHANCE,
    "MonotonicallyIncreasingID": _COLUMNS,
    "SchemaOfAvro": _FUNCTION,
    "SparkPartitionID": _COLUMNS,
    "ToAvro": _FUNCTION,
    "ToProtobuf": _FUNCTION,
    "TryReflect": _FUNCTION,
    "VariableReference": "Write the value itself.",
    "VectorAvg": _VECTOR,
    "VectorSum": _VECTOR,
    "aggregate.ApproximatePercentile": _PERCENTILE,
    "aggregate.HistogramNumeric": "Group by width_bucket(...), and count.",
    "variant.SchemaOfVariantAgg": "Collect the schemas: collect_set(schema_of_variant(...)).",
}
_WITHOUT_ORDER = {
    "aggregate.AnyValue": _ANY,
    "aggregate.CollectUnion": "Use array_distinct(flatten(collect_list(...))).",
    "aggregate.First": _FIRST,
    "aggregate.Last": _LAST,
}
_SCALAR_UDF_TYPES = frozenset({100, 101, 200, 204, 250, 251})


class Place(Enum):
    """Where an expression stands."""

    ROW = "computed from one row"
    AGGREGATE = "computed from the rows of a group"
    WINDOW = "computed from the rows of a window, which have an order"


@dataclass(frozen=True, slots=True)
class Word:
    """An expression of a plan, with what decides about it."""

    node: Tree
    place: Place
    parent: Tree | None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def kind(self) -> Kind | None:
        return classify(self.node.class_name)


@dataclass(frozen=True, slots=True)
class Words:
    """What a plan says: its expressions, and the names of its nodes; subqueries included."""

    expressions: tuple[Word, ...]
    nodes: frozenset[str]

    def aggregates(self, *names: str) -> bool:
        """Whether there is an aggregate of one of these classes outside of windows: `CollectList`, for example."""
        wanted = {f"aggregate.{name}" for name in names}
        return any(word.name in wanted and word.place is Place.AGGREGATE for word in self.expressions)

    def has(self, *names: str) -> bool:
        """Whether there is an expression of one of these classes."""
        return any(word.name in names for word in self.expressions)

    @property
    def settled(self) -> bool:
        """Whether there is an aggregate whose order has to be settled."""
        return any(word.kind is Kind.SETTLED and word.place is Place.AGGREGATE for word in self.expressions)


def words(plan_json: str) -> Words:
    """Reads what `toJSON` gives of an analyzed plan."""
    nodes: set[str] = set()
    found = []
    waiting: list[tuple[Tree, Tree | None, bool]] = [(read(plan_json), None, False)]
    while waiting:
        node, parent, over_window = waiting.pop()
        if node.is_plan:
            nodes.add(node.name)
        else:
            found.append(Word(node, _place(node, parent, over_window=over_window), parent))
        waiting.extend((tree, None, False) for tree in node.inside())
        waiting.extend((child, node, _over_window(node, parent, child)) for child in reversed(node.children))
    return Words(tuple(found), frozenset(nodes))


def _over_window(node: Tree, parent: Tree | None, child: Tree) -> bool:
    """Whether a child is the function of a window expression, with or without an aggregate expression in between."""
    if node.name == "WindowExpression":
        return child is node.child("windowFunction")
    aggregate = node.name == "aggregate.AggregateExpression" and child is node.child("aggregateFunction")
    return aggregate and parent is not None and parent.name == "WindowExpression"


def _place(node: Tree, parent: Tree | None, *, over_window: bool) -> Place:
    if over_window:
        return Place.WINDOW
    aggregate = parent is not None and parent.name == "aggregate.AggregateExpression"
    return (
        Place.AGGREGATE if aggregate and parent is not None and node is parent.child("aggregateFunction") else Place.ROW
    )


def check(plan_json: str, sql: str) -> Words:
    """What a view's analyzed plan says. Raises `UnsupportedQuery` for what is not a function of the log."""
    found = words(plan_json)
    pieces = tuple(tokens(sql))
    for word in found.expressions:
        _check_word(word)
    _check_text(pieces, found)
    return found


def _check_text(pieces: Sequence[Token], found: Words) -> None:
    """Refuses what is in the text and not to be seen in the plan."""
    for literal in special_literals(pieces):
        raise UnsupportedQuery(f"the literal {literal}", _NOT_OF_THE_LOG, hint=_MOMENT)
    functions = called(pieces)
    for name in sorted(functions & tables.IN_TEXT.keys()):
        raise UnsupportedQuery(
            f"{name}()", "whether it overflows depends on the order of rows", hint=tables.IN_TEXT[name]
        )
    # Spark evaluates the rows of VALUES when it analyzes a query, if it can.
    if "values" in {piece.text for piece in pieces}:
        for name, class_name in (("version", "SparkVersion"), ("aes_encrypt", "AesEncrypt")):
            if name in functions and not found.has(class_name):
                raise UnsupportedQuery(f"{name}() in VALUES", _NOT_OF_THE_LOG, hint=_CHANCE)


def _check_word(word: Word) -> None:
    kind = word.kind
    if kind is None:
        raise UnsupportedQuery(
            f"{_phrase(word.node)}", "nothing is known about what its value depends on", hint=_FUNCTION
        )
    for rule in _RULES:
        rule(word)
    if kind is Kind.ORDER and word.place is not Place.WINDOW:
        raise _without_order(word)
    if kind in _HINTS:
        raise _not_of_the_log(word, kind)


def _check_moment(word: Word) -> None:
    if casts_special(word.node):
        construct = "a string that is cast to a time when the query is planned"
        raise UnsupportedQuery(construct, "it may mean now, today, tomorrow or yesterday", hint=_MOMENT)


def _check_list(word: Word) -> None:
    if word.name == "aggregate.ListAgg" and word.place is Place.AGGREGATE and not word.node.fields["orderExpressions"]:
        hint = "Say in which order: listagg(...) WITHIN GROUP (ORDER BY ...)."
        raise UnsupportedQuery("listagg() without an order", hint=hint)


def _check_mode(word: Word) -> None:
    if word.name == "aggregate.Mode" and word.place is Place.AGGREGATE and "reverseOpt" not in word.node.fields:
        hint = (
            "Say which of them: mode(..., true) gives the least, mode() WITHIN GROUP (ORDER BY ... DESC) the greatest."
        )
        raise UnsupportedQuery("mode() without an order", "several values may be the most frequent", hint=hint)


def _check_encryption(word: Word) -> None:
    if word.name != "AesEncrypt":
        return
    mode, start = word.node.child("mode"), word.node.child("iv")
    without_start = mode is not None and str(mode.fields.get("value")).upper() == "ECB"
    given = start is not None and any(part.fields.get("value") for part in start.walk())
    if not without_start and not given:
        hint = "Give the initialization vector: aes_encrypt(value, key, 'CBC', 'PKCS', unhex('...'))."
        raise UnsupportedQuery("aes_encrypt() with a random initialization vector", _NOT_OF_THE_LOG, hint=hint)


def _check_function(word: Word) -> None:
    if word.name != "PythonUDF":
        return
    fields = word.node.fields
    if not fields["udfDeterministic"] or fields["evalType"] not in _SCALAR_UDF_TYPES:
        raise UnsupportedQuery(f"{fields['name']}()", _NOT_OF_THE_LOG, hint=_FUNCTION)


def _check_collation(word: Word) -> None:
    for field in ("dataType", "schema", "targetType"):
        if " collate " in json.dumps(word.node.fields.get(field)):
            raise _not_of_the_log(word, Kind.COLLATION)


_RULES: tuple[Callable[[Word], None], ...] = (
    _check_moment,
    _check_list,
    _check_mode,
    _check_encryption,
    _check_function,
    _check_collation,
)


def _without_order(word: Word) -> UnsupportedQuery:
    name = tables.ORDER[word.name]
    if word.name == "aggregate.MaxMinByK":
        name = "min_by" if word.node.fields["reverse"] else "max_by"
        construct, hint = (
            f"{name}() of several values",
            "Use rank() or row_number() OVER (... ORDER BY ...) in QUALIFY.",
        )
        return UnsupportedQuery(construct, _BY_ORDER, hint=hint)
    return UnsupportedQuery(f"{name}() without an order", hint=_WITHOUT_ORDER.get(word.name, ""))


def _not_of_the_log(word: Word, kind: Kind) -> UnsupportedQuery:
    hint = _HINTS_BY_NAME.get(word.name, _HINTS[kind])
    if kind is Kind.COLLATION:
        detail = "values that are equal but not the same leave open which of them is shown"
        return UnsupportedQuery("COLLATE", detail, hint=hint)
    if kind is Kind.UNSTABLE:
        return UnsupportedQuery(_phrase(word.node), "it depends on the order of rows, or on chance", hint=hint)
    parent = word.parent.name if word.parent is not None else ""
    if kind is Kind.CLOCK and parent in ("UnixTimestamp", "ToUnixTimestamp"):
        return UnsupportedQuery("unix_timestamp()", _NOT_OF_THE_LOG, hint=hint)
    if parent == "ConvertTimezone":
        hint = "Name the time zone: convert_timezone('UTC', ..., ...)."
        return UnsupportedQuery("convert_timezone() from the zone of the session", _NOT_OF_THE_LOG, hint=hint)
    return UnsupportedQuery(_phrase(word.node), _NOT_OF_THE_LOG, hint=hint)


def _phrase(node: Tree) -> str:
    """An expression as SQL calls it, or as Spark does."""
    for table in _NAMED:
        if node.name in table:
            name = table[node.name]
            return name if " " in name else f"{name}()"
    return f"Spark's expression {node.name}"


_NAMED = (tables.CLOCK, tables.CHANCE, tables.ENVIRONMENT, tables.UNSTABLE, tables.ORDER, tables.SETTLED)


def unorderable(function: str, type_name: str) -> UnsupportedQuery:
    """What is said of an aggregate that would have to be put in order, but whose values cannot be compared."""
    detail = f"values of type {type_name} cannot be put in order"
    return UnsupportedQuery(f"{function}()", detail, hint="Turn the value into text with to_json(...).")


def refused(node_words: Words) -> Iterator[UnsupportedQuery]:
    """Every reason to refuse a plan, for reports; `check` raises the first of them."""
    for word in node_words.expressions:
        try:
            _check_word(word)
        except UnsupportedQuery as error:
            yield error
