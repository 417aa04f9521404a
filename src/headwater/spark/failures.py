"""What goes wrong in Spark, said in headwater's words: which view, which part of its SQL, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
    PythonException,
    QueryContextType,
    SparkRuntimeException,
)

from headwater.errors import (
    ArchiveUnavailable,
    HeadwaterError,
    InternalError,
    InvalidQuery,
    InvariantBroken,
    LogUnavailable,
    SparkStopped,
    StoreUnavailable,
    UnsupportedQuery,
    ViewFailed,
    WorkerLost,
)
from headwater.spark.vocabulary.lexer import Lexeme, tokens

OPERATOR = "headwater operator"
"""In the message of what a kernel refuses: the number of its operator follows."""
_OPERATOR = re.compile(rf"{OPERATOR} (\d+): (.*?)(?: hint: (.*?))?(?:\n|$)")
BROKEN = "headwater invariant of operator"
"""In the message of a bug that a kernel noticed: the number of its operator follows."""
_BROKEN = re.compile(rf"{BROKEN} (\d+): (.*?)(?:\n|$)")
FUNCTION = "headwater function"
"""In the message of what a function in Python raises: its name follows."""
_FUNCTION = re.compile(rf"{FUNCTION} (\w+): (.*)")
# What a worker says of an archive; see the error's own text.
_ARCHIVE = re.compile(r"ArchiveUnavailable: The archive (\S+) cannot be used: (.*)\.\s*\n\s*hint: (.*)")
# The same of a store that holds the state, and of brokers that hold the log.
_UNAVAILABLE = re.compile(r"(StoreUnavailable|LogUnavailable): The [\w' ]+ (\S+) is unavailable: (.*)\.\s*\n")
# What Spark advises and a view cannot follow: its settings are part of what a view means.
_SETTING = re.compile(r"\s*If necessary set \"?spark\.sql\.ansi\.enabled\"? to \"?false\"? to bypass this error\.")
# What people know from other databases, and what Spark takes for something else when it fails on it.
_NOT_IN_SPARK = (
    (("match_recognize",), "MATCH_RECOGNIZE", "Compare a row with those before it: lag(...) OVER (... ORDER BY ...)."),
)
# What Spark says when a process that it talks to is gone.
_LOST = (
    "Broken pipe",
    "Connection reset",
    "EOFException",
    "ExecutorLostFailure",
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "SparkContext was shut down",
)
# States of conditions that a record brings about, by how they begin: too many rows for a scalar, values that do not
# fit, keys that repeat in a map, formats and types found out late, collections too large, raise_error().
_DATA_STATES = ("21", "22", "23", "42", "54000", "54006", "P0001")
# What evaluating an expression raises; not all of it has a state. With these states it is the machine's or a bug.
_EVALUATION = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    SparkRuntimeException,
)
_MACHINE_STATES = ("08", "53", "57", "58", "82", "KD", "XX")
# What Java's own libraries raise on a value, where Spark passes it on as it is: of formats, numbers, times, and XML.
_JAVA_DATA = re.compile(
    r"(java\.lang\.(Arithmetic|IllegalArgument|NumberFormat|(String|Array)?IndexOutOfBounds)Exception"
    r"|java\.(time|util\.regex)\.[\w.]+Exception|java\.util\.\w*Format\w*Exception"
    r"|org\.xml\.sax\.\w+|javax\.xml\.[\w.]+Exception)\b[:;]?\s*"
)


def view_failure(error: PySparkException, views: dict[str, str], owners: dict[int, str]) -> HeadwaterError | None:
    """The failure of a view on its records; None if it is something else, such as a lost executor.

    `views` has each view's SQL, `owners` the view to which an operator belongs.
    """
    if isinstance(error, PythonException):
        if raised := _FUNCTION.search(str(error)):
            callers = [name for name, sql in views.items() if re.search(rf"\b{raised[1]}\b", sql, re.IGNORECASE)]
            return ViewFailed(
                callers[0] if len(callers) == 1 else None, f"Function {raised[1]!r} raised {_sentence(raised[2])}"
            )
        found = _OPERATOR.search(str(error))
        return None if found is None else ViewFailed(owners.get(int(found[1])), found[2], hint=found[3] or "")
    state = error.getSqlState() or ""
    evaluated = isinstance(error, _EVALUATION) and not state.startswith(_MACHINE_STATES)
    if not evaluated and not state.startswith(_DATA_STATES):
        return None
    message = (error.getMessage() or str(error)).split("\n== SQL")[0].strip()
    for context in error.getQueryContext():
        if context.contextType() != QueryContextType.SQL:
            continue
        view = _view_of(context, views)
        if view is not None:
            return ViewFailed(view, f"{_sentence(message)} In the SQL: {context.fragment()}")
    return ViewFailed(None, _sentence(message))


def broken_invariant(
    error: PySparkException, operators: dict[int, str], owners: dict[int, str]
) -> HeadwaterError | None:
    """A bug that a kernel noticed before it was published; `operators` has what each of them is, in words."""
    found = _BROKEN.search(str(error)) if isinstance(error, PythonException) else None
    if found is None:
        return None
    number = int(found[1])
    return InvariantBroken(owners.get(number), f"operator {number}, {operators[number]}", found[2].rstrip("."))


def query_failure(view: str, sql: str, error: PySparkException) -> HeadwaterError:
    """SQL that does not parse, or that names what is not there."""
    for words, construct, hint in _NOT_IN_SPARK:
        if _follow_each_other(words, sql):
            return UnsupportedQuery(construct, "Spark's SQL does not have it", hint=hint, view=view)
    message = (error.getMessage() or str(error)).split("\n")[0].strip()
    line, column = _place(error)
    reason = _sentence(re.sub(r"\s*SQLSTATE: \w+.*$", "", message))
    return InvalidQuery(view, reason, line=line, column=column, sql=sql)


def _follow_each_other(words: Sequence[str], sql: str) -> bool:
    found = [token.text for token in tokens(sql) if token.lexeme is Lexeme.WORD]
    return any(found[place : place + len(words)] == list(words) for place in range(len(found)))


def spark_fails(view: str, error: Py4JJavaError) -> InvalidQuery:
    """SQL that is right and on which Spark itself breaks down."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    # A setting that Spark advises is not for a view to change.
    reason = re.sub(r" Consider setting the config.*", "", str(cause).split("\n")[0])
    return InvalidQuery(view, f"Spark itself fails on this SQL ({reason}): write it another way.")


def breakdown(error: Py4JJavaError) -> HeadwaterError:
    """A batch that failed in Java: because a process was lost, on a value, or for a reason that nobody knows."""
    causes = [error.java_exception]
    while (cause := causes[-1].getCause()) is not None:
        causes.append(cause)
    said = [str(cause).split("\n")[0].rstrip(".") for cause in causes]
    if any(sign in text for text in (*said, str(causes[0])) for sign in _LOST):
        return WorkerLost(said[-1])
    if raised := _JAVA_DATA.match(said[-1]):
        return ViewFailed(None, _sentence(said[-1][raised.end() :] or said[-1]))
    return InternalError(f"Spark failed with an error that headwater does not know: {said[-1]}.")


def spark_stopped(error: Exception) -> SparkStopped:
    """Spark's Java process does not answer."""
    return SparkStopped((str(error).splitlines() or [type(error).__name__])[0].rstrip("."))


def _place(error: PySparkException) -> tuple[int | None, int | None]:
    """The line and column that an error names, counted from 1."""
    if not isinstance(error, ParseException | AnalysisException):
        return None, None
    summary = " ".join(context.summary() for context in error.getQueryContext())
    if found := re.search(r"line (\d+), position (\d+)", summary or str(error)):
        return int(found[1]), int(found[2])
    # The parser counts columns from 0.
    if found := re.search(r"line (\d+), pos (\d+)", str(error)):
        return int(found[1]), int(found[2]) + 1
    return None, None


def in_view(view: str, error: UnsupportedQuery) -> HeadwaterError:
    """The same refusal, with the name of the view."""
    return UnsupportedQuery(error.construct, error.detail, hint=error.hint, view=view)


def unexpected(error: PySparkException) -> HeadwaterError:
    """What no view is the reason of: an archive, a store or a log that a worker could not reach, or a bug."""
    if found := _ARCHIVE.search(str(error)):
        return ArchiveUnavailable(*found.groups())
    if found := _UNAVAILABLE.search(str(error)):
        kind, address, reason = found.groups()
        return StoreUnavailable(address, reason) if kind == "StoreUnavailable" else LogUnavailable(address, reason)
    return InternalError(f"Spark failed with an error that headwater does not know: {error}")


def _view_of(context: Any, views: dict[str, str]) -> str | None:
    texts = context._q.sqlText()  # noqa: SLF001
    text = str(texts.get()) if texts.isDefined() else ""
    fragment = str(context.fragment())
    exact = [name for name, sql in views.items() if sql == text]
    return next(iter(exact or [name for name, sql in views.items() if fragment and fragment in sql]), None)


def _sentence(message: str) -> str:
    text = re.sub(r"^\[[A-Z_.]+\]\s*", "", message)
    text = _SETTING.sub("", text)
    text = re.sub(r"\s*SQLSTATE: \w+", "", text).strip()
    return text if text.endswith((".", "!")) else f"{text}."
