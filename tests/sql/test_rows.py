"""The rows of every case file have what goes wrong easily: ties, NULLs, duplicates, and values that cancel."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
import pytest

from headwater.model.ddl import parse_ddl
from tests.sql.casefile import CaseFile, TopicLine, read

FILES = [read(path) for path in sorted((Path(__file__).parent / "cases").glob("*.test"))]
TOPICS = [pytest.param(file, topic, id=f"{file.name}-{topic.name}") for file in FILES for topic in file.topics]


def last_rows(file: CaseFile, topic: TopicLine) -> list[dict[str, Any]]:
    """What is left of a topic after the last step: of a table the newest row of each key, of a stream all records."""
    changes = [c for step in file.steps for commit in step.commits for c in commit if c.topic == topic.name]
    if topic.key is None:
        return [change.row for change in changes]
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for change in changes:
        key = tuple(change.row[name] for name in topic.key)
        rows.pop(key, None)
        if not change.deleted:
            rows[key] = change.row
    return list(rows.values())


def columns(topic: TopicLine) -> list[str]:
    """The columns that are not in the key."""
    return [name for name in parse_ddl(topic.schema).names if name not in (topic.key or ())]


def values(rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows if row[name] is not None]


@pytest.mark.parametrize(("file", "topic"), TOPICS)
def test_every_column_has_a_null(file: CaseFile, topic: TopicLine) -> None:
    rows = last_rows(file, topic)
    assert [name for name in columns(topic) if len(values(rows, name)) == len(rows)] == []


@pytest.mark.parametrize(("file", "topic"), TOPICS)
def test_every_column_has_a_tie(file: CaseFile, topic: TopicLine) -> None:
    rows = last_rows(file, topic)
    counts = {name: Counter(map(json.dumps, values(rows, name))) for name in columns(topic)}
    assert [name for name, found in counts.items() if max(found.values()) < 2] == []


@pytest.mark.parametrize(("file", "topic"), TOPICS)
def test_two_rows_differ_in_the_key_only(file: CaseFile, topic: TopicLine) -> None:
    written = [json.dumps({name: row[name] for name in columns(topic)}) for row in last_rows(file, topic)]
    assert len(set(written)) < len(written)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_values_cancel(file: CaseFile) -> None:
    found = [values(last_rows(file, topic), one.name) for topic in file.topics for one in numbers(topic)]
    assert any(-Decimal(value) in map(Decimal, column) for column in found for value in column if Decimal(value))


@pytest.mark.parametrize(("file", "topic"), TOPICS)
def test_sums_of_doubles_depend_on_their_order(file: CaseFile, topic: TopicLine) -> None:
    for one in numbers(topic):
        if pat.is_floating(one.type):
            found = [value for value in values(last_rows(file, topic), one.name) if math.isfinite(value)]
            sums = {sum(found), sum(reversed(found)), sum(sorted(found)), sum(sorted(found, key=abs))}
            assert len(sums) > 1, one.name


def numbers(topic: TopicLine) -> list[pa.Field]:
    """The columns of numbers."""
    kinds = (pat.is_integer, pat.is_floating, pat.is_decimal)
    return [
        one for one in parse_ddl(topic.schema) if one.name in columns(topic) and any(is_(one.type) for is_ in kinds)
    ]
