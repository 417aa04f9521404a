"""The functions of the installed Spark, as its own registry describes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

AGGREGATES = "agg_funcs"
WINDOWS = "window_funcs"
_EXAMPLE = re.compile(r"^\s*> (?P<sql>SELECT\b.*?);\s*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Function:
    """A name of the registry. Names of the same `implementation` are the same function."""

    name: str
    implementation: str
    group: str
    examples: Sequence[str]


def registered_functions(session: SparkSession) -> list[Function]:
    """Everything that SHOW FUNCTIONS lists, operators included, in order of names."""
    # A session of other tests may have functions of theirs.
    session = session.newSession()
    catalog = session._jsparkSession.sessionState().catalog()
    jvm: Any = session._jvm
    found = []
    for row in session.sql("SHOW FUNCTIONS").collect():
        info = catalog.lookupFunctionInfo(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(row[0]))
        examples = [match["sql"] for match in _EXAMPLE.finditer(info.getExamples() or "")]
        found.append(Function(row[0], str(info.getClassName()), info.getGroup() or "", examples))
    return found


def distinct(functions: Sequence[Function]) -> list[tuple[Function, bool]]:
    """Functions, and whether each is the first of its implementation."""
    seen: set[str] = set()
    marked = []
    for function in functions:
        marked.append((function, function.implementation not in seen))
        seen.add(function.implementation)
    return marked
