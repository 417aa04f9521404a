"""Whether a view may be made of the words in its plan and its text: what is refused, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from headwater.errors import UnsupportedQuery
from headwater.spark.vocabulary import tables
from headwater.spark.vocabulary.kinds import Kind
from headwater.spark.vocabulary.lexer import Token, called, tokens
from headwater.spark.vocabulary.moments import casts_special, special_literals
from headwater.spark.vocabulary.words import Place, Word, Words, words

_NOT_OF_THE_LOG = "its value is not a function of the log"
_BY_ORDER = "its result depends on the order of rows"
_BY_CHANCE = "its result depends on the order of rows or on chance"
_OVERFLOW = "whether it overflows depends on the order of rows"
_UNKNOWN = "nothing is known about what its value depends on"
_EQUAL = "values that are equal but not the same leave open which of them is shown"

_TIME = "Compare with now(), the log's clock: WHERE at > now() - INTERVAL 10 MINUTES."
_COMPUTE = "Compute it where the record is made, and append it as a column."
_COLUMNS = "Use the columns of the record."
_FUNCTION = "Register a function with app.function."
_COUNT = "count(DISTINCT ...) is exact, and costs the same here."
_PERCENTILE = "percentile(...) is exact, and costs the same here."
_TOP = "Count with GROUP BY, and take the first with ORDER BY ... LIMIT."
_VECTOR = "Take the elements apart with posexplode, and sum them up as doubles."
_MOMENT = "Write the date or the time itself, or use a column with a time."
_LOWER = "Compare lower(...) with lower(...)."

_HINTS: Final = {
    Kind.CLOCK: _TIME,
    Kind.CHANCE: _COMPUTE,
    Kind.ENVIRONMENT: _COMPUTE,
    Kind.UNSTABLE: _COUNT,
    Kind.COLLATION: _LOWER,
}
_HINTS_BY_FUNCTION: Final = {
    "any_value": "Say which value is meant: min(value) or max(value).",
    "approx_percentile": _PERCENTILE,
    "approx_top_k": _TOP,
    "approx_top_k_accumulate": _TOP,
    "approx_top_k_combine": _TOP,
    "collect_union": "Use array_distinct(flatten(collect_list(...))).",
    "current_timezone": "Name the time zone.",
    "first": "Say which row is meant: min_by(value, order), or first_value(...) OVER (... ORDER BY ...).",
    "from_avro": _FUNCTION,
    "from_protobuf": _FUNCTION,
    "histogram_numeric": "Count with GROUP BY width_bucket(...).",
    "kll_merge_agg_bigint": _PERCENTILE,
    "kll_merge_agg_double": _PERCENTILE,
    "kll_merge_agg_float": _PERCENTILE,
    "kll_sketch_agg_bigint": _PERCENTILE,
    "kll_sketch_agg_double": _PERCENTILE,
    "kll_sketch_agg_float": _PERCENTILE,
    "kll_sketch_merge_bigint": _COMPUTE,
    "kll_sketch_merge_double": _COMPUTE,
    "kll_sketch_merge_float": _COMPUTE,
    "last": "Say which row is meant: max_by(value, order), or last_value(...) OVER (... ORDER BY ...).",
    "monotonically_increasing_id": _COLUMNS,
    "reflect": _FUNCTION,
    "schema_of_avro": _FUNCTION,
    "spark_partition_id": _COLUMNS,
    "to_avro": _FUNCTION,
    "to_protobuf": _FUNCTION,
    "try_avg": "avg(...) fails if it overflows.",
    "try_reflect": _FUNCTION,
    "try_sum": "sum(...) fails if it overflows, and sum(CAST(... AS decimal(38, 0))) does not.",
    "a variable of the session": "Write the value itself.",
    "vector_avg": _VECTOR,
    "vector_sum": _VECTOR,
}
_BY_NAME: Final = {
    **tables.ORDER,
    **tables.CLOCK,
    **tables.CHANCE,
    **tables.ENVIRONMENT,
    **tables.UNSTABLE,
    **tables.COLLATION,
}
# The types of functions in Python that give one value for each row: with pickle, pandas or Arrow.
_SCALAR_FUNCTIONS: Final = frozenset({100, 101, 200, 204, 250, 251})


def check(plan_json: str, sql: str) -> Words:
    """What a view's analyzed plan says. Raises `UnsupportedQuery` if it is not a function of the log alone."""
    found, pieces = words(plan_json), tuple(tokens(sql))
    functions = called(pieces)
    for refusal in _refusals(found, pieces, functions):
        raise _as_called(refusal, functions)
    return found


def unorderable(function: str, type_name: str) -> UnsupportedQuery:
    """What is said of an aggregate whose values would have to be put in order, and cannot be compared."""
    detail = f"values of type {type_name} cannot be put in order"
    return UnsupportedQuery(f"{function}()", detail, hint="Make it text with to_json(...).")


def hashed_map(function: str) -> UnsupportedQuery:
    """What is said of a hash of something that has a map in it."""
    hint = "Take the hash of to_json(...), or of an array: array_sort(map_entries(...))."
    return UnsupportedQuery(f"{function}() of a map", "maps that are the same may have different hashes", hint=hint)


def _refusals(found: Words, pieces: Sequence[Token], functions: set[str]) -> Iterator[UnsupportedQuery]:
    yield from _refusals_of_nodes(found)
    for word in found.expressions:
        refusal = _refusal(word)
        if refusal is not None:
            yield refusal
    yield from _refusals_of_text(found, pieces, functions)


def _refusal(word: Word) -> UnsupportedQuery | None:
    if word.kind is None:
        return UnsupportedQuery(f"Spark's expression {word.node.simple_name}", _UNKNOWN, hint=_FUNCTION)
    if word.kind is Kind.ORDER:
        return None if word.place is Place.WINDOW else _without_order(word)
    if word.kind in _HINTS:
        return _not_of_the_log(word, _HINTS[word.kind])
    rule = _RULES.get(word.name)
    return None if rule is None else rule(word)


def _as_called(refusal: UnsupportedQuery, functions: set[str]) -> UnsupportedQuery:
    """The refusal with the name by which the query calls the function, which may have several."""
    name, bracket, rest = refusal.construct.partition("(")
    alias = next((alias for alias in tables.ALIASES.get(name, "").split() if alias in functions), None)
    if alias is None or name in functions:
        return refusal
    return UnsupportedQuery(f"{alias}{bracket}{rest}", refusal.detail, hint=refusal.hint)


def _refusals_of_nodes(found: Words) -> Iterator[UnsupportedQuery]:
    if "Sample" in found.nodes:
        yield UnsupportedQuery("TABLESAMPLE", hint="Filter by a hash: WHERE pmod(xxhash64(id), 100) < 10.")
    if "PythonWorkerLogs" in found.nodes:
        yield UnsupportedQuery("python_worker_logs()", _NOT_OF_THE_LOG, hint="Append the logs to a topic.")


def _refusals_of_text(found: Words, pieces: Sequence[Token], functions: set[str]) -> Iterator[UnsupportedQuery]:
    """What is in the text and not to be seen in the plan."""
    for literal in special_literals(pieces):
        yield UnsupportedQuery(f"the literal {literal}", _NOT_OF_THE_LOG, hint=_MOMENT)
    for name in sorted(functions & tables.IN_TEXT):
        yield UnsupportedQuery(f"{name}()", _OVERFLOW, hint=_HINTS_BY_FUNCTION[name])
    # Spark computes the rows of VALUES while it analyzes the query, if it can.
    if any(piece.text == "values" for piece in pieces):
        for name, class_name in tables.COMPUTED_IN_VALUES.items():
            if name in functions and class_name not in found.names:
                yield UnsupportedQuery(f"{name}() in VALUES", _NOT_OF_THE_LOG, hint=_COMPUTE)


def _without_order(word: Word) -> UnsupportedQuery:
    name = _BY_NAME[word.name]
    if word.name == "aggregate.MaxMinByK":
        name = "min_by" if word.node.fields["reverse"] else "max_by"
        hint = "Number the rows, and take the first: QUALIFY row_number() OVER (... ORDER BY ...) <= 3."
        return UnsupportedQuery(f"{name}() of several values", _BY_ORDER, hint=hint)
    return UnsupportedQuery(f"{name}() without an order", hint=_HINTS_BY_FUNCTION.get(name, ""))


def _not_of_the_log(word: Word, hint: str) -> UnsupportedQuery:
    name = _BY_NAME[word.name]
    parent = word.parent.name if word.parent is not None else ""
    if word.kind is Kind.COLLATION:
        return UnsupportedQuery("COLLATE", _EQUAL, hint=hint)
    if word.kind is Kind.CLOCK and parent in ("UnixTimestamp", "ToUnixTimestamp"):
        name = "unix_timestamp"
    if parent == "ConvertTimezone":
        hint = "Name both time zones: convert_timezone('UTC', 'Europe/Berlin', at)."
        return UnsupportedQuery("convert_timezone() from the time zone of the session", _NOT_OF_THE_LOG, hint=hint)
    detail = _BY_CHANCE if word.kind is Kind.UNSTABLE else _NOT_OF_THE_LOG
    return UnsupportedQuery(name if " " in name else f"{name}()", detail, hint=_HINTS_BY_FUNCTION.get(name, hint))


def _unordered_list(word: Word) -> UnsupportedQuery | None:
    if word.place is Place.WINDOW or word.node.fields["orderExpressions"]:
        return None
    hint = "Say in which order: listagg(...) WITHIN GROUP (ORDER BY ...)."
    return UnsupportedQuery("listagg() without an order", hint=hint)


def _unordered_mode(word: Word) -> UnsupportedQuery | None:
    if word.place is Place.WINDOW or "reverseOpt" in word.node.fields:
        return None
    hint = "mode(value, true) gives the least of them, mode() WITHIN GROUP (ORDER BY value DESC) the greatest."
    return UnsupportedQuery("mode() without an order", "several values may be the most frequent", hint=hint)


def _random_encryption(word: Word) -> UnsupportedQuery | None:
    mode, start = word.node.child("mode"), word.node.child("iv")
    if mode is not None and str(mode.fields.get("value")).upper() == "ECB":
        return None
    if start is not None and any(part.fields.get("value") for part in start.walk()):
        return None
    hint = "Give it one: aes_encrypt(value, key, 'CBC', 'PKCS', unhex('...'))."
    return UnsupportedQuery("aes_encrypt() with a random initialization vector", _NOT_OF_THE_LOG, hint=hint)


def _open_function(word: Word) -> UnsupportedQuery | None:
    fields = word.node.fields
    if fields["udfDeterministic"] and fields["evalType"] in _SCALAR_FUNCTIONS:
        return None
    return UnsupportedQuery(f"{fields['name']}()", _NOT_OF_THE_LOG, hint=_FUNCTION)


def _cast(word: Word) -> UnsupportedQuery | None:
    if not casts_special(word.node):
        return _collated(word)
    construct = "a string that becomes a time when the query is planned"
    return UnsupportedQuery(construct, "it may mean now, today, tomorrow or yesterday", hint=_MOMENT)


def _collated(word: Word) -> UnsupportedQuery | None:
    return UnsupportedQuery("COLLATE", _EQUAL, hint=_LOWER) if " collate " in str(word.node.fields) else None


_RULES: Final[dict[str, Callable[[Word], UnsupportedQuery | None]]] = {
    "AesEncrypt": _random_encryption,
    "Cast": _cast,
    "CsvToStructs": _collated,
    "JsonToStructs": _collated,
    "ParseToDate": _cast,
    "ParseToTimestamp": _cast,
    "PythonUDF": _open_function,
    "XmlToStructs": _collated,
    "aggregate.ListAgg": _unordered_list,
    "aggregate.Mode": _unordered_mode,
    "variant.VariantGet": _collated,
}
