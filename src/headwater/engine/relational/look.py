"""What a transaction of a store's database sees: generations, runs, publications and changes, as values."""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from headwater.engine.definition import Definition
from headwater.engine.judging import Judged
from headwater.engine.publication import (
    Base,
    BatchStats,
    Excluded,
    Generation,
    Hold,
    Publication,
    Status,
    ViewChange,
    Wish,
)
from headwater.engine.relational.database import Transaction
from headwater.engine.runs import Run
from headwater.model.position import Position

NO_RUN = "[]"
"""What stands in the place of a run where several changes came to nothing together."""

_GENERATION = (
    "SELECT id, fingerprint, definition, status, batch, position, promoted_position, created_at, is_former, wish"
    " FROM generations"
)


class DatabaseLook:
    """One transaction of the database."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def current(self) -> Generation | None:
        row = self._tx.execute(f"{_GENERATION} WHERE status = 'current'").fetchone()
        return None if row is None else _to_generation(row)

    def generation(self, generation: int) -> Generation | None:
        row = self._tx.execute(f"{_GENERATION} WHERE id = ?", (generation,)).fetchone()
        return None if row is None else _to_generation(row)

    def generations(self) -> list[Generation]:
        return [_to_generation(row) for row in self._tx.execute(f"{_GENERATION} ORDER BY id")]

    def runs(self, generation: int, arrangements: Sequence[str] | None = None) -> list[Run]:
        query = "SELECT arrangement, file, section, low, high, rows, bytes FROM runs WHERE generation = ?"
        if arrangements is None:
            return [Run(*row) for row in self._tx.execute(query, (generation,))]
        return [
            Run(*row)
            for name in arrangements
            for row in self._tx.execute(f"{query} AND arrangement = ?", (generation, name))
        ]

    def published(self, generation: int, last: int | None = None) -> list[Publication]:
        query = "SELECT batch, position, published_at, stats FROM published WHERE generation = ?"
        rows = self._tx.execute(
            f"{query} ORDER BY batch DESC LIMIT ?", (generation, sys.maxsize if last is None else last)
        ).fetchall()
        return [
            Publication(batch, Position.parse(position), at, BatchStats.from_json(json.loads(stats)))
            for batch, position, at, stats in reversed(rows)
        ]

    def excluded(self, generation: int) -> list[Excluded]:
        query = 'SELECT view, topic, partition, "offset", reason FROM excluded WHERE generation = ?'
        return [Excluded(*row) for row in self._tx.execute(query, (generation,))]

    def judged(self, generation: int) -> dict[str, Judged]:
        query = "SELECT topic, judged FROM judged WHERE generation = ?"
        rows = self._tx.execute(query, (generation,)).fetchall()
        return {topic: Judged.from_json(topic, json.loads(text)) for topic, text in rows}

    def changes(self, generation: int, view: str, after: int, until: int | None = None) -> list[ViewChange]:
        found: dict[int, tuple[str, str | None, list[Run]]] = {}
        query = (
            "SELECT batch, position, first_position, run FROM changes"
            " WHERE generation = ? AND view = ? AND batch > ? AND batch <= ? ORDER BY batch, number"
        )
        last = sys.maxsize if until is None else until
        for batch, position, first, text in self._tx.execute(query, (generation, view, after, last)):
            runs = found.setdefault(batch, (position, first, []))[2]
            if text != NO_RUN:
                runs.append(Run.from_json(json.loads(text)))
        return [
            ViewChange(batch, Position.parse(position), tuple(runs), None if first is None else Position.parse(first))
            for batch, (position, first, runs) in found.items()
        ]

    def changed_rows(self, generation: int, view: str, after: int) -> int:
        (rows,) = self._tx.execute(
            "SELECT coalesce(sum(json_extract(run, '$[5]')), 0) FROM changes"
            " WHERE generation = ? AND view = ? AND batch > ?",
            (generation, view, after),
        ).fetchall()[0]
        return int(rows)

    def forgotten(self, generation: int, view: str) -> ViewChange | None:
        row = self._tx.execute(
            "SELECT batch, position FROM forgotten WHERE generation = ? AND view = ?", (generation, view)
        ).fetchone()
        return None if row is None else ViewChange(row[0], Position.parse(row[1]), ())

    def batch_at(self, generation: int, view: str, position: Position) -> int:
        # What was published is forgotten before the changes that are kept for followers.
        query = (
            "SELECT batch, position FROM published WHERE generation = ?"
            " UNION SELECT batch, position FROM changes WHERE generation = ? AND view = ? ORDER BY batch"
        )
        rows = self._tx.execute(query, (generation, generation, view)).fetchall()
        number = bisect_left(rows, True, key=lambda row: not Position.parse(row[1]) <= position)
        return int(rows[number - 1][0]) if number else 0

    def is_kept(self, generation: int, view: str) -> bool:
        # A stripped generation has only the views that it is kept for.
        query = (
            "SELECT 1 FROM generations WHERE id = ? AND (stripped = 0"
            " OR EXISTS (SELECT 1 FROM followers f WHERE f.generation = id AND f.view = ?))"
        )
        return self._tx.execute(query, (generation, view)).fetchone() is not None

    def holds(self) -> list[Hold]:
        query = (
            "SELECT name, view, generation, low, high,"
            " (SELECT CAST(coalesce(sum(json_extract(run, '$[6]')), 0) AS BIGINT) FROM changes c"
            " WHERE c.generation = f.generation AND c.view = f.view AND c.batch > f.low)"
            " FROM followers f ORDER BY name, generation"
        )
        return [Hold(*row) for row in self._tx.execute(query)]

    def bases(self, generation: int) -> list[Base]:
        columns = "generation, batch, position, offsets, taken_at, judged"
        query = f"SELECT {columns} FROM bases WHERE generation = ? ORDER BY batch"
        return [
            Base(number, batch, Position.parse(position), _offsets(offsets), at, _judged(judged))
            for number, batch, position, offsets, at, judged in self._tx.execute(query, (generation,))
        ]

    def base_runs(self, base: Base) -> list[Run]:
        columns = "arrangement, file, section, low, high, rows, bytes"
        query = f"SELECT {columns} FROM base_runs WHERE generation = ? AND batch = ?"
        return [Run(*row) for row in self._tx.execute(query, (base.generation, base.batch))]

    def home(self, generation: int, view: str) -> int:
        return home_of(self._tx, generation, view)


class NoLook:
    """A store that is not there yet."""

    def current(self) -> None:
        return None

    def generation(self, generation: int) -> None:
        return None

    def generations(self) -> list[Generation]:
        return []

    def runs(self, generation: int, arrangements: Sequence[str] | None = None) -> list[Run]:
        return []

    def published(self, generation: int, last: int | None = None) -> list[Publication]:
        return []

    def excluded(self, generation: int) -> list[Excluded]:
        return []

    def judged(self, generation: int) -> dict[str, Judged]:
        return {}

    def changes(self, generation: int, view: str, after: int, until: int | None = None) -> list[ViewChange]:
        return []

    def changed_rows(self, generation: int, view: str, after: int) -> int:
        return 0

    def forgotten(self, generation: int, view: str) -> None:
        return None

    def batch_at(self, generation: int, view: str, position: Position) -> int:
        return 0

    def is_kept(self, generation: int, view: str) -> bool:
        return False

    def holds(self) -> list[Hold]:
        return []

    def bases(self, generation: int) -> list[Base]:
        return []

    def base_runs(self, base: Base) -> list[Run]:
        return []

    def home(self, generation: int, view: str) -> int:
        return generation


def home_of(tx: Transaction, generation: int, view: str) -> int:
    """As `Look.home`."""
    row = tx.execute("SELECT home FROM homes WHERE generation = ? AND view = ?", (generation, view)).fetchone()
    return generation if row is None else int(row[0])


def _judged(text: str) -> dict[str, Judged]:
    return {topic: Judged.from_json(topic, one) for topic, one in json.loads(text).items()}


def _offsets(text: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[str, int]] = json.loads(text)
    return {topic: {int(partition): offset for partition, offset in one.items()} for topic, one in found.items()}


@lru_cache(maxsize=16)
def _definition(text: str) -> Definition:
    # A generation's definition never changes, and every read asks for it.
    return Definition.from_json(json.loads(text))


def _to_generation(row: tuple[Any, ...]) -> Generation:
    number, fingerprint, definition, status, batch, position, promoted, created_at, is_former, wish = row
    return Generation(
        number,
        fingerprint,
        _definition(definition),
        cast(Status, status),
        batch,
        Position.parse(position),
        None if promoted is None else Position.parse(promoted),
        created_at,
        bool(is_former),
        cast(Wish | None, wish),
    )
