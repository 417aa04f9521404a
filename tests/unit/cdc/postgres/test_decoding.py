"""From messages to Arrow: transactions whole, rows in order, subtransactions that were rolled back gone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.cdc.postgres.changes import Changes, read_changes
from headwater.cdc.postgres.gathering import Gatherer, Large, Small
from headwater.cdc.postgres.relations import Column, Relation, read_relation
from headwater.cdc.postgres.stretch import RELATION, Stretch, of_kinds, stretch_of
from tests.unit.cdc.postgres.pgoutput import (
    UNCHANGED,
    Writer,
    begin,
    commit,
    message,
    stream_abort,
    stream_commit,
    stream_start,
    stream_stop,
)

PLAIN = Writer()
TABLE = Relation(7, "public", "t", "d", (Column("id", "int8"), Column("note", "text")), ("id",))


def changes_of(stretch: Stretch) -> Changes:
    return read_changes(stretch, np.flatnonzero(of_kinds(stretch.kinds, b"IUD")), TABLE, ("id",))


def rows(stretch: Stretch) -> list[tuple[Any, ...]]:
    changes = changes_of(stretch)
    shown = zip(changes.rows.to_pylist(), changes.operations.tolist(), changes.deleted.tolist(), strict=True)
    return [(row["id"], row["note"], chr(operation), gone) for row, operation, gone in shown]


def test_rows_keep_their_order_over_all_kinds_of_changes() -> None:
    stretch = stretch_of(
        [
            PLAIN.row("I", 7, (1, "a")),
            PLAIN.row("U", 7, (1, None)),
            PLAIN.row("D", 7, old=(1, None)),
            PLAIN.row("I", 7, (2, "é🦀")),
            PLAIN.row("U", 7, (3, "moved"), old=(2, None)),
            PLAIN.row("U", 7, (3, ""), old=(3, None)),
        ]
    )
    assert rows(stretch) == [
        (1, "a", "c", False),
        (1, None, "u", False),
        (1, None, "d", True),
        (2, "é🦀", "c", False),
        (2, None, "d", True),
        (3, "moved", "u", False),
        (3, "", "u", False),
    ]


def test_a_value_that_was_not_sent_is_told_from_a_null() -> None:
    changes = changes_of(stretch_of([PLAIN.row("U", 7, (1, UNCHANGED)), PLAIN.row("U", 7, (2, None))]))
    assert changes.unchanged["note"].tolist() == [True, False]
    known = changes_of(stretch_of([PLAIN.row("U", 7, (1, UNCHANGED), old=(1, "from the old row"))]))
    assert known.unchanged == {}
    assert known.rows["note"].to_pylist() == ["from the old row"]


def test_a_relation_is_read_back() -> None:
    stretch = stretch_of([PLAIN.relation(7, "t", [("id", 20), ("note", 25), ("odd", 99999)], "id")])
    assert stretch.kinds.tolist() == [RELATION]
    found = read_relation(stretch.body(0), {})
    assert found.columns[:2] == TABLE.columns
    assert (found.name, found.identified_by, found.columns[2].type) == ("public.t", ("id",), "type 99999")


def script() -> list[bytes]:
    """Small, empty and streamed transactions, one of them with parts that were rolled back, one rolled back whole."""
    return [
        begin(1), PLAIN.row("I", 7, (1, "a")), PLAIN.row("I", 7, (2, "b")), commit(100),
        message(105, "outside", b"x", transactional=False),
        stream_start(10),
        Writer(10).row("I", 7, (10, "kept")), Writer(11).row("I", 7, (11, "rolled back")),
        stream_stop(),
        begin(2), commit(110),
        stream_start(20), Writer(20).row("I", 7, (20, "never")), stream_stop(),
        stream_abort(10, 11),
        begin(3), PLAIN.row("D", 7, old=(1, None)), commit(120),
        stream_start(10, first=False), Writer(12).row("I", 7, (12, "kept")), stream_stop(),
        stream_abort(20, 20),
        stream_commit(10, 130),
        begin(4), PLAIN.row("I", 7, (4, "x" * 500)), commit(140),
    ]  # fmt: skip


EXPECTED = [
    (1, 100, [1, 2]), (0, 106, []), (2, 110, []), (3, 120, [1]), (10, 130, [10, 12]), (4, 140, [4]),
]  # fmt: skip


def gathered(gatherer: Gatherer, parts: list[list[bytes]]) -> list[tuple[int, int, list[int]]]:
    found: list[tuple[int, int, list[int]]] = []
    for part in parts:
        for item in gatherer.feed(part):
            if isinstance(item, Large):
                ids = [row[0] for stretch in item.messages.stretches(64) for row in rows(stretch)]
                found.append((item.transaction.id, item.transaction.end, ids))
                item.messages.close()
            else:
                found += _small(item)
    return found


def _small(item: Small) -> list[tuple[int, int, list[int]]]:
    return [
        (each.id, each.end, [row[0] for row in rows(item.stretch.take(item.owner == number))])
        for number, each in enumerate(item.transactions)
    ]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("open_bytes_max", [100, 1 << 20])
def test_transactions_are_whole_however_they_arrive(tmp_path: Path, seed: int, open_bytes_max: int) -> None:
    rng, messages = random.Random(seed), script()
    cuts = sorted(rng.sample(range(1, len(messages)), rng.randint(0, 8)))
    parts = [messages[a:b] for a, b in zip([0, *cuts], [*cuts, len(messages)], strict=True)]
    gatherer = Gatherer(tmp_path / "spool", open_bytes_max=open_bytes_max)
    assert gathered(gatherer, parts) == EXPECTED
    assert gatherer.is_idle
    assert gatherer.spooled_bytes == 0
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_table_that_is_described_in_a_part_that_was_rolled_back(tmp_path: Path) -> None:
    """The server does not describe it again: how rows are read has to be kept, and what was altered must not count."""
    gatherer = Gatherer(tmp_path / "spool")
    messages = [
        stream_start(10), Writer(11).relation(7, "t", [("id", 20), ("note", 25)], "id"),
        Writer(11).row("I", 7, (11, "rolled back")), stream_stop(), stream_abort(10, 11),
        stream_start(10, first=False), Writer(12).row("I", 7, (12, "kept")), stream_stop(), stream_commit(10, 130),
    ]  # fmt: skip
    [item] = gatherer.feed(messages)
    assert isinstance(item, Large)
    [stretch] = item.messages.stretches()
    item.messages.close()
    assert [chr(kind) for kind in stretch.kinds.tolist()] == ["r", "I"]
    assert read_relation(stretch.body(0), {}).columns == TABLE.columns
    assert [row[0] for row in rows(stretch)] == [12]
