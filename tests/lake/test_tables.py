"""Tables of Parquet files hold what the view holds, whatever its types, and keep others out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headwater.connectors.lake import rewriting
from headwater.connectors.lake import target as target_module
from headwater.engine.sinks.port import Mark, PositionChanged
from headwater.errors import TargetFailed, UsageError
from tests.lake.bringing import Bringer, same
from tests.lake.formats import Format
from tests.unit.engine.samples import at

COLUMNS = pa.schema([("key", pa.int64()), ("text", pa.string())])
KINDS = pa.schema(
    [
        ("key", pa.int64()),
        ("bool", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("int", pa.int32()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(38, 10)),
        ("text", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("list", pa.list_(pa.int32())),
        ("struct", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
        ("map", pa.map_(pa.string(), pa.float64())),
    ]
)
LOWEST: dict[str, Any] = {
    "key": -(2**63),
    "bool": False,
    "tiny": -128,
    "small": -(2**15),
    "int": -(2**31),
    "float": -math.inf,
    "double": -0.0,
    "decimal": Decimal("-9999999999999999999999999999.9999999999"),
    "text": "",
    "binary": b"",
    "date": date(1, 1, 1),
    "at": datetime(1, 1, 1, tzinfo=UTC),
    "local": datetime(1, 1, 1),  # noqa: DTZ001 - without a zone
    "list": [],
    "struct": {"a": None, "b": []},
    "map": [],
}
HIGHEST: dict[str, Any] = {
    "key": 2**63 - 1,
    "bool": True,
    "tiny": 127,
    "small": 2**15 - 1,
    "int": 2**31 - 1,
    "float": 1.5,
    "double": math.inf,
    "decimal": Decimal("9999999999999999999999999999.9999999999"),
    "text": "\U0001f600 \x00 '",
    "binary": b"\x00\xff",
    "date": date(9999, 12, 31),
    "at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "local": datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - without a zone
    "list": [1, None, 2],
    "struct": {"a": 1, "b": ["x", None]},
    "map": [("a", 1.0), ("b", None)],
}


def texts(rows: Mapping[int, str | None]) -> pa.Table:
    return pa.table([list(rows), list(rows.values())], schema=COLUMNS)


@pytest.mark.parametrize("keep", ["content", "changes"])
def test_every_type_comes_back_as_it_was(made: Format, keep: str) -> None:
    rows = pa.Table.from_pylist([LOWEST, HIGHEST, {"key": 0}], KINDS)
    brought = Bringer(made.target(keep=keep), ["key"])
    brought.bring(rows)
    assert same(brought.rows(), rows)
    changed = pa.Table.from_pylist([HIGHEST, {**LOWEST, "double": 0.0, "list": None}], KINDS)
    brought.bring(changed)
    assert same(brought.rows(), changed)
    assert brought.refused == []
    brought.bring(rows)
    found = made.read()
    if keep == "content":
        assert sorted(found["key"].to_pylist()) == sorted(rows["key"].to_pylist())
        assert {row["text"] for row in found.to_pylist()} == {"", None, HIGHEST["text"]}
        assert {row["decimal"] for row in found.to_pylist()} == {None, LOWEST["decimal"], HIGHEST["decimal"]}


@pytest.mark.parametrize("keep", ["content", "changes"])
@pytest.mark.parametrize("seed", range(2))
def test_a_view_without_a_key_has_its_rows_as_often_as_they_are_there(
    made: Format, keep: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(rewriting, "FILE_BYTES", 200)
    monkeypatch.setattr(rewriting, "SMALL_FILES_MAX", random.choice([2, 100]))
    brought = Bringer(made.target(keep=keep))
    for _ in range(6):
        rows = [(random.randrange(4), random.choice(["a", "b", None])) for _ in range(random.randrange(30))]
        brought.bring(pa.Table.from_pylist([{"key": key, "text": text} for key, text in rows], COLUMNS))
        assert same(brought.rows(), brought.held)
    if keep == "content":
        assert same(made.read().select(["key", "text"]).cast(COLUMNS), brought.held)


@pytest.mark.parametrize("seed", range(2))
def test_only_files_with_changed_keys_are_replaced(made: Format, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "FILE_BYTES", 4000)
    monkeypatch.setattr(rewriting, "SMALL_FILES_MAX", 10_000)
    random, held = Random(seed), {key: f"text {key}" for key in range(2000)}
    brought = Bringer(made.target(), ["key"])
    brought.bring(texts(held))
    files = made.files()
    assert files > 5
    for _ in range(4):
        first = random.randrange(1900)
        held |= {key: f"{random.random()}" for key in range(first, first + 20)}
        before = {file.path for file in brought.version().files}
        brought.bring(texts(held))
        after = {file.path for file in brought.version().files}
        # The keys lie side by side in the first content; later ones may be in a file of their own.
        assert len(before - after) <= 2 + 4
        assert before & after
        assert same(made.read().cast(COLUMNS), texts(held))


def test_small_files_are_joined(made: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "SMALL_FILES_MAX", 4)
    brought, held = Bringer(made.target(), ["key"]), {0: "zero"}
    brought.bring(texts(held))
    for number in range(1, 30):
        held[number] = f"{number}"
        brought.bring(texts(held))
        assert made.files() <= 5
    assert same(made.read().cast(COLUMNS), texts(held))


def test_files_that_nothing_needs_are_removed_after_the_retention(
    made: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_module, "CLEAN_SECONDS", 0)
    brought = Bringer(made.target(retention="1 hour"), ["key"])
    for number in range(5):
        brought.bring(texts(dict.fromkeys(range(3), f"{number}")))
    assert made.stored() > made.files()
    brought = Bringer(made.target(retention=0), ["key"])
    brought.held = texts(dict.fromkeys(range(3), "4"))
    brought.number = 5
    brought.target.table.begin(brought.version(), None)
    brought.target.table.write(texts({7: "of a commit that never came"}), "6")
    brought.bring(texts({1: "last"}))
    brought.bring(texts({1: "the very last"}))
    assert same(brought.rows(), texts({1: "the very last"}))
    assert same(made.read().cast(COLUMNS), texts({1: "the very last"}))
    assert made.stored() <= made.files() + 1


def test_columns_that_change_come_with_the_content(made: Format) -> None:
    brought = Bringer(made.target(), ["key"])
    brought.bring(texts({1: "one"}))
    rows = pa.table({"key": pa.array([1], pa.int64()), "text": pa.array([5], pa.int32()), "more": pa.array(["new"])})
    brought.held = None
    brought.bring(rows)
    assert same(brought.rows(), rows)
    assert made.read().to_pylist() == rows.to_pylist()
    brought.held = None
    brought.bring(rows.select(["key"]))
    assert made.read().column_names == ["key"]


def test_a_history_has_every_change_with_its_delivery(made: Format) -> None:
    brought = Bringer(made.target(keep="changes"), ["key"])
    brought.bring(texts({1: "one"}))
    brought.bring(texts({1: "eins"}))
    brought.bring(texts({}))
    rows = sorted(made.read().to_pylist(), key=lambda row: (row["_delivery"], row["_weight"]))
    assert [(row["text"], row["_weight"], row["_position"]) for row in rows] == [
        ("one", 1, str(at(1))),
        ("one", -1, str(at(2))),
        ("eins", 1, str(at(2))),
        ("eins", -1, str(at(3))),
    ]
    # The content comes again: only what differs is a change.
    brought.held = None
    brought.bring(texts({1: "eins"}))
    brought.held = None
    brought.bring(texts({1: "eins", 2: "zwei"}))
    assert sum(row["_weight"] for row in made.read().to_pylist()) == 2
    assert made.read().num_rows == 6


def test_the_stamp_is_in_the_table(made: Format) -> None:
    brought = Bringer(made.target(), ["key"])
    assert brought.stamp is None
    brought.bring(texts({1: "one"}))
    assert Bringer(made.target(), ["key"]).stamp == "stamp 1"
    brought.target.forget()
    again = Bringer(made.target(), ["key"])
    assert again.stamp is None
    again.bring(texts({2: "two"}))
    assert same(made.read().cast(COLUMNS), texts({2: "two"}))


def test_a_table_that_is_elsewhere_is_noticed_while_nothing_changes(made: Format) -> None:
    brought = Bringer(made.target(), ["key"])
    brought.target.check()
    brought.bring(texts({1: "one"}))
    brought.target.check()
    other = Bringer(made.target(), ["key"])
    other.number = 5
    other.bring(texts({1: "two"}))
    with pytest.raises(PositionChanged):
        brought.target.check()


def test_an_older_writer_changes_nothing(made: Format) -> None:
    old = Bringer(made.target(), ["key"])
    old.bring(texts({1: "one"}))
    new = Bringer(made.target(), ["key"])
    new.held, new.number = texts({1: "one"}), 5
    new.bring(texts({1: "of the new"}))
    with pytest.raises(PositionChanged):
        old.bring(texts({1: "of the old"}))
    assert same(made.read().cast(COLUMNS), texts({1: "of the new"}))


@pytest.mark.parametrize("keep", ["content", "changes"])
def test_a_writer_that_was_overtaken_while_it_wrote_changes_nothing(made: Format, keep: str) -> None:
    old = Bringer(made.target(keep=keep), ["key"])
    old.bring(texts({1: "one"}))
    new = Bringer(made.target(keep=keep), ["key"])
    new.held, new.number = texts({1: "one"}), 5
    commit = old.target.table.commit

    def overtaken(change: Any) -> None:
        old.target.table.commit = commit  # type: ignore[method-assign]
        new.bring(texts({1: "of the new"}))
        commit(change)

    old.target.table.commit = overtaken  # type: ignore[method-assign]
    with pytest.raises(PositionChanged):
        old.bring(texts({1: "of the old"}))
    assert same(new.rows(), texts({1: "of the new"}))
    if keep == "changes":
        assert [row["_weight"] for row in made.read().to_pylist()].count(-1) == 1


def test_a_delivery_whose_end_was_not_heard_is_not_brought_twice(made: Format) -> None:
    brought = Bringer(made.target())
    brought.bring(texts({1: "one"}))
    commit = brought.target.table.commit

    def unheard(change: Any) -> None:
        commit(change)
        raise OSError("the connection ended")

    brought.target.table.commit = unheard  # type: ignore[method-assign]
    delivery = brought.delivery(texts({1: "one", 2: "two"}))
    with pytest.raises(TargetFailed):
        brought.target.deliver(delivery)
    brought.target.table.commit = commit  # type: ignore[method-assign]
    brought.target.deliver(delivery)
    assert same(made.read().cast(COLUMNS), texts({1: "one", 2: "two"}))


def test_rows_of_others_are_left_alone(made: Format) -> None:
    made.foreign(texts({1: "mine"}))
    with pytest.raises(TargetFailed, match="no sink wrote") as raised:
        Bringer(made.target(), ["key"]).bring(texts({2: "two"}))
    assert raised.value.kind == "refused"
    Bringer(made.target(replace=True), ["key"]).bring(texts({2: "two"}))
    assert same(made.read().cast(COLUMNS), texts({2: "two"}))


def test_a_table_belongs_to_one_sink(made: Format) -> None:
    Bringer(made.target(), ["key"]).bring(texts({1: "one"}))
    with pytest.raises(TargetFailed, match=r"belongs to the sink 'shop\.out'"):
        Bringer(made.target(replace=True), ["key"], sink="other")


def test_the_position_alone_is_kept_now_and_then(made: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = Bringer(made.target(), ["key"])
    brought.bring(texts({1: "one"}))
    brought.number += 10
    brought.bring(texts({1: "one"}))
    assert Bringer(made.target(), ["key"]).stamp == "stamp 1"
    brought.number += target_module.IDLE_STEPS_MAX
    brought.bring(texts({1: "one"}))
    kept = brought.number
    assert Bringer(made.target(), ["key"]).stamp == f"stamp {kept}"
    monkeypatch.setattr(target_module, "IDLE_SECONDS_MAX", 0)
    brought.bring(texts({1: "one"}))
    assert Bringer(made.target(), ["key"]).stamp == f"stamp {kept + 1}"
    assert same(made.read().cast(COLUMNS), texts({1: "one"}))


def test_a_sink_that_starts_now_makes_its_table_with_the_first_change(made: Format) -> None:
    brought = Bringer(made.target())
    brought.held = texts({1: "before"})
    brought.bring(texts({1: "before"}))
    assert Bringer(made.target()).stamp is None
    brought.bring(texts({1: "before", 2: "two"}))
    assert same(made.read().cast(COLUMNS), texts({2: "two"}))


def test_an_interval_column_is_refused_with_a_sentence(made: Format) -> None:
    schema = pa.schema([("key", pa.int64()), ("months", pa.month_day_nano_interval())])
    with pytest.raises(TargetFailed, match="has no type for column 'months'") as raised:
        made.target().table.fitted(schema)
    assert raised.value.kind == "refused"


def test_a_column_of_the_history_cannot_be_one_of_the_view(made: Format) -> None:
    rows = pa.table({"key": pa.array([1]), "_weight": pa.array([1])})
    with pytest.raises(TargetFailed, match="has its own column '_weight'"):
        Bringer(made.target(keep="changes")).bring(rows)


def test_options_are_checked(made: Format) -> None:
    with pytest.raises(UsageError, match="expected 'content' or 'changes'"):
        made.target(keep="all")
    with pytest.raises(UsageError, match="every"):
        made.target(every="soon")
    assert made.target(every="1 minute").every == timedelta(minutes=1)
    assert str(made.directory) in repr(made.target())


def test_a_generation_that_changes_is_kept_at_once(made: Format) -> None:
    brought = Bringer(made.target(), ["key"])
    brought.bring(texts({1: "one"}))
    delivery = brought.delivery(texts({1: "one"}))
    moved = type(delivery)(
        Mark(delivery.mark.position, 2), "switched", delivery.rows, delivery.weights, delivery.upserts, delivery.deletes
    )
    brought.target.deliver(moved)
    assert Bringer(made.target(), ["key"]).stamp == "switched"
