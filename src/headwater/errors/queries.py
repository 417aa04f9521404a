"""What can go wrong with SQL, of a view or of a query over views."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.errors.kinds import UsageError


class UnsupportedQuery(UsageError):
    """A view asks for something that cannot be kept up to date."""

    code = "unsupported_query"

    def __init__(self, construct: str, detail: str = "", *, hint: str = "", view: str | None = None) -> None:
        where = f"view {view!r}" if view else "a view"
        super().__init__(f"{construct} is not supported in {where}{': ' + detail if detail else ''}.", hint=hint)
        self.construct, self.detail, self.view = construct, detail, view


class InvalidQuery(UsageError):
    """SQL that does not parse, or that names something that is not there; of a view, or (None) of a query over views.

    `line` and `column` are counted from 1; `excerpt` is that line with a caret below the place, where it is known.
    """

    code = "invalid_query"

    def __init__(
        self, view: str | None, reason: str, *, line: int | None = None, column: int | None = None, sql: str = ""
    ) -> None:
        subject = "Invalid query" if view is None else f"Invalid SQL in view {view!r}"
        place = "" if line is None else f", line {line}, column {column}"
        super().__init__(f"{subject}{place}: {reason}")
        self.view, self.reason, self.line, self.column = view, reason, line, column
        self.excerpt = _excerpt(sql, line, column or 1) if line is not None else ""
        if self.excerpt:
            self.add_note(self.excerpt)


class TooManyRows(UsageError):
    code = "too_many_rows"

    def __init__(self, rows: int) -> None:
        super().__init__(
            f"More than one row returned by a subquery used as an expression: {rows} rows.",
            hint="Let the subquery aggregate its rows, or add LIMIT 1 with an order.",
        )
        self.rows = rows


class Overflow(UsageError):
    code = "overflow"

    def __init__(self, function: str, kind: str, group: Mapping[str, object]) -> None:
        where = ", ".join(f"{name} = {value!r}" for name, value in group.items())
        super().__init__(
            f"{function} does not fit {kind}{f' in the group {where}' if where else ''}.",
            hint="Cast the argument to a wider type, such as decimal(38, 0) or double.",
        )
        self.function, self.kind, self.group = function, kind, dict(group)


class QueryEnded(UsageError):
    """A query that a limit ended; `limit` is its name, as the server's options have it."""

    code = "query_ended"

    def __init__(self, message: str, *, limit: str, hint: str) -> None:
        super().__init__(message, hint=f"{hint} The limit is {limit}.")
        self.limit = limit


class QueryTooLong(QueryEnded):
    code = "query_too_long"

    def __init__(self, seconds: float, *, limit: str = "query_seconds_max") -> None:
        super().__init__(
            f"The query took longer than {seconds:g} s and was stopped.",
            limit=limit,
            hint="Ask for less, or let a view keep the answer up to date.",
        )
        self.seconds = seconds


class QueryTooLarge(QueryEnded):
    code = "query_too_large"

    def __init__(self, bytes_max: int) -> None:
        super().__init__(
            f"The query's answer is larger than {bytes_max:,} bytes.",
            limit="query_answer_bytes_max",
            hint="Ask for fewer rows, or for fewer columns.",
        )
        self.bytes_max = bytes_max


class QueryOutOfMemory(QueryEnded):
    code = "query_out_of_memory"

    def __init__(self, bytes_max: int, *, limit: str = "query_bytes_max") -> None:
        super().__init__(
            f"The query needs more than {bytes_max:,} bytes of memory and was stopped.",
            limit=limit,
            hint="Ask for less, or let a view keep the answer up to date.",
        )
        self.bytes_max = bytes_max


_EXCERPT_WIDTH_MAX = 100


_CUT = "…"


def _excerpt(text: str, line: int, column: int) -> str:
    """The line of a text in which something is wrong, and a caret below the place; nothing if there is no such line."""
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    shown, place = lines[line - 1].expandtabs(1), max(column - 1, 0)
    first = max(0, min(place - _EXCERPT_WIDTH_MAX // 2, len(shown) - _EXCERPT_WIDTH_MAX))
    before, after = _CUT if first else "", _CUT if first + _EXCERPT_WIDTH_MAX < len(shown) else ""
    part = shown[first : first + _EXCERPT_WIDTH_MAX]
    return f"{before}{part}{after}\n{' ' * (place - first + len(before))}^"
