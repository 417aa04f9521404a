"""Bases in a store's database: rows that name the runs of a generation as they were at one batch."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from headwater.engine.publication import Base
from headwater.engine.relational.database import Transaction
from headwater.engine.relational.look import DatabaseLook
from headwater.errors import InternalError

_RUN = "arrangement, file, section, low, high, rows, bytes"


def take_base(
    tx: Transaction, generation: int, offsets: Mapping[str, Mapping[int, int]], kept: Collection[int], now: int
) -> Base:
    """As `ViewStore.take_base`."""
    look = DatabaseLook(tx)
    found = look.generation(generation)
    if found is None:
        raise InternalError(f"Generation {generation} was to get a base, and is not there.")
    for base in look.bases(generation):
        if base.batch not in kept or base.batch == found.batch:
            for table in ("bases", "base_runs"):
                tx.execute(f"DELETE FROM {table} WHERE generation = ? AND batch = ?", (generation, base.batch))
    judged = look.judged(generation)
    texts = {topic: one.to_json() for topic, one in judged.items()}
    tx.execute(
        "INSERT INTO bases VALUES (?, ?, ?, ?, ?, ?)",
        (generation, found.batch, str(found.position), json.dumps(offsets), now, json.dumps(texts)),
    )
    tx.execute(
        f"INSERT INTO base_runs SELECT g.id, g.batch, {_RUN} FROM runs r JOIN generations g ON g.id = r.generation"
        " WHERE g.id = ?",
        (generation,),
    )
    return Base(generation, found.batch, found.position, offsets, now, judged)


def drop_bases(tx: Transaction, generation: int) -> None:
    """Keeps the bases of a generation no longer."""
    for table in ("bases", "base_runs"):
        tx.execute(f"DELETE FROM {table} WHERE generation = ?", (generation,))
