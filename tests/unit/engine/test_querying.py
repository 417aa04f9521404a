"""Queries that break DuckDB itself: what is said, and that the session is not used again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import pyarrow as pa
import pytest

from headwater.engine.querying import QueryLimits, Session
from headwater.engine.reading import WAIT, Reader, Snapshot
from headwater.errors import InvalidQuery
from headwater.model.position import START, Position

LIMITS = QueryLimits(timedelta(seconds=30), 1 << 20, 1 << 28, 1)
NOT_UTF_8 = pa.table({"v": pa.array([b"a\xff"], pa.binary()).view(pa.string())})


class OneView:
    """Views of which one has text that is not UTF-8, as Spark makes of bytes."""

    def views(self) -> list[str]:
        return ["texts"]

    def read(self, views: Sequence[str], at_least: Position | None = None, timeout: timedelta = WAIT) -> Snapshot:
        return Snapshot(START, 1, dict.fromkeys(views, NOT_UTF_8))


@pytest.mark.parametrize("limits", [None, LIMITS])
def test_an_internal_error_of_duckdb_is_told_without_its_stack(limits: QueryLimits | None) -> None:
    reader = cast("Reader", OneView())
    with Session(limits) as session:
        session.query(reader, "SELECT v FROM texts")
        spent_before = session.is_spent
        with pytest.raises(InvalidQuery, match="invalid UTF-8") as caught:
            session.query(reader, "SELECT upper(v) FROM texts")
        assert (spent_before, session.is_spent) == (False, True)
    assert "Stack Trace" not in str(caught.value)
    assert ".so" not in str(caught.value)
