"""The kernels that read a topic's history, operations and versions, against recomputing from all records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.views.operations import Operations
from headwater.views.versions import Versions
from tests.property.views.driver import Change, Driver
from tests.property.views.sequences import HASHES, check_cuts
from tests.property.views.test_groups_against_recomputing import SCHEMAS, record_lists
from tests.property.views.values import Row, identity, normal


def by_key(records: Sequence[Change], key: int) -> dict[Any, list[Row]]:
    """The records of each key in their order."""
    found: dict[Any, list[Row]] = {}
    for row, _ in sorted(records, key=lambda change: change[0][-3:-1]):
        found.setdefault(identity(normal(tuple(row[:key]))), []).append(row)
    return found


@given(SCHEMAS, st.integers(0, 2), HASHES, st.data())
def test_operations_are_what_all_records_together_say(
    schema: pa.Schema, columns: int, hashes: int, data: st.DataObject
) -> None:
    kernel = Operations(schema, tuple(schema.names[:columns]))
    driver = Driver(kernel, {"records": kernel.key}, hashes)
    steps = data.draw(record_lists([field.type for field in schema]))
    done: list[Change] = []
    for step in steps:
        done += step
        driver.step({"records": step})
        expected: list[Row] = []
        for records in by_key(done, len(kernel.key)).values():
            there = False
            for *row, _commit, _offset, deleted in records:
                expected.append((*row, "delete" if deleted else "update" if there else "insert"))
                there = not deleted
        assert driver.result() == Counter(map(identity, expected))
    check_cuts(lambda: Driver(kernel, {"records": kernel.key}, hashes), [{"records": step} for step in steps], data)


@given(SCHEMAS, st.integers(0, 2), HASHES, st.data())
def test_versions_end_where_the_next_record_begins(
    schema: pa.Schema, columns: int, hashes: int, data: st.DataObject
) -> None:
    key = tuple(schema.names[:columns])
    kernel = Versions(schema.append(pa.field("at", pa.int64())), key, "at")
    driver = Driver(kernel, {"records": key}, hashes)
    steps: list[list[Change]] = [
        # The clock may stand still, or go back.
        [((*row[:-3], data.draw(st.integers(0, 5)), *row[-3:]), weight) for row, weight in step]
        for step in data.draw(record_lists([field.type for field in schema]))
    ]
    done: list[Change] = []
    for step in steps:
        done += step
        driver.step({"records": step})
        expected: list[Row] = []
        for records in by_key(done, len(key)).values():
            ends = [record[-4] for record in records[1:]]
            for (*row, _commit, _offset, deleted), end in zip(records, [*ends, None], strict=True):
                if not deleted:
                    expected.append((*row, end))
        assert driver.result() == Counter(map(identity, expected))
        assert len(driver.state["current"]) <= len(by_key(done, len(key)))
    check_cuts(lambda: Driver(kernel, {"records": key}, hashes), [{"records": step} for step in steps], data)
