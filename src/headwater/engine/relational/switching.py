"""Switching in a store's database: a generation that was built takes over what did not change, and readers see it."""

from __future__ import annotations

import json

from headwater.engine.publication import Switch
from headwater.engine.relational.bases import drop_bases
from headwater.engine.relational.database import Transaction
from headwater.engine.relational.look import DatabaseLook
from headwater.errors import InternalError
from headwater.model.position import Position

_RUN = "file, section, low, high, rows, bytes"
_HISTORY = ("changes", "forgotten", "followers")
"""What a view has of its own, beside its content."""


def switch_over(tx: Transaction, switch: Switch, now: int) -> None:
    """As `ViewStore.switch`."""
    look = DatabaseLook(tx)
    built, former = look.generation(switch.generation), look.current()
    if built is None or former is None or built.status != "building":
        raise InternalError(f"Generation {switch.generation} is not being built, or there is none to take over from.")
    alone = not switch.adopted and not switch.unchanged
    if built.batch and not (former.position <= built.position if alone else former.position == built.position):
        raise InternalError(
            f"Generation {built.id} is at position {built.position}, and was to take over at {former.position}."
        )
    position = built.position if built.batch else former.position
    _take_judged(tx, built.id, former.id)
    _take_runs(tx, switch, former.id)
    _copy_publications(tx, switch, former.id)
    _move_history(tx, switch, former.id)
    tx.executemany(
        "INSERT INTO forgotten VALUES (?, ?, ?, ?)",
        # What was published before has none of the views that changed.
        [
            (built.id, view, former.batch, str(position))
            for view in built.definition.views
            if view not in switch.unchanged
        ],
    )
    tx.execute(
        "UPDATE generations SET fingerprint = ?, batch = ?, position = ?, wish = NULL, is_former = 0 WHERE id = ?",
        (switch.fingerprint, former.batch, str(position), built.id),
    )
    promote(tx, built.id, position, now)
    if switch.former is not None:
        _keep_building(tx, former.id, switch.former, now)


def discard(tx: Transaction, generation: int) -> None:
    """As `ViewStore.discard`."""
    tx.execute("DELETE FROM generations WHERE id = ? AND status = 'building'", (generation,))
    if not tx.changes():
        raise InternalError(f"Generation {generation} is not being built.")
    for table in ("runs", "published", "changes", "forgotten", "excluded", "judged"):
        tx.execute(f"DELETE FROM {table} WHERE generation = ?", (generation,))
    drop_bases(tx, generation)


def promote(tx: Transaction, generation: int, position: Position, now: int) -> None:
    """Lets readers see a generation, in the place of the one that they saw."""
    former = DatabaseLook(tx).current()
    if former is not None and former.id == generation:
        return
    if former is not None and not former.position <= position:
        raise InternalError(f"Generation {generation} was to be promoted at {position}, behind {former.position}.")
    tx.execute("UPDATE generations SET status = 'retired', retired_at = ? WHERE status = 'current'", (now,))
    tx.execute(
        "UPDATE generations SET status = 'current', promoted_batch = batch, promoted_position = position WHERE id = ?",
        (generation,),
    )


def _take_judged(tx: Transaction, built: int, former: int) -> None:
    """What is known of topics that the build did not read. What does not fit its rule or its place is made again."""
    tx.execute(
        "INSERT INTO judged SELECT ?, topic, judged FROM judged WHERE generation = ? ON CONFLICT DO NOTHING",
        (built, former),
    )


def _take_runs(tx: Transaction, switch: Switch, former: int) -> None:
    known = tx.execute("SELECT DISTINCT arrangement FROM runs WHERE generation = ?", (switch.generation,)).fetchall()
    for (arrangement,) in known:
        if arrangement not in switch.kept:
            tx.execute("DELETE FROM runs WHERE generation = ? AND arrangement = ?", (switch.generation, arrangement))
    for arrangement, names in switch.adopted.items():
        for name in names:
            tx.execute(
                f"INSERT INTO runs SELECT ?, ?, {_RUN} FROM runs WHERE generation = ? AND arrangement = ?",
                (switch.generation, name, former, arrangement),
            )


def _copy_publications(tx: Transaction, switch: Switch, former: int) -> None:
    built = switch.generation
    for table in ("published", "changes", "forgotten"):
        tx.execute(f"DELETE FROM {table} WHERE generation = ?", (built,))
    publications = tx.execute(
        "SELECT batch, position, published_at, stats FROM published WHERE generation = ?", (former,)
    ).fetchall()
    tx.executemany(
        "INSERT INTO published VALUES (?, ?, ?, ?, ?)",
        # Operators have other numbers now.
        [(built, *row, json.dumps({**json.loads(stats), "operators": {}})) for *row, stats in publications],
    )
    if not switch.adopted and not switch.unchanged:
        # It has decided by itself.
        return
    tx.execute("DELETE FROM excluded WHERE generation = ?", (built,))
    tx.execute(
        'INSERT INTO excluded SELECT ?, view, topic, partition, "offset", reason FROM excluded WHERE generation = ?',
        (built, former),
    )


def _move_history(tx: Transaction, switch: Switch, former: int) -> None:
    for view in switch.unchanged:
        for table in _HISTORY:
            tx.execute(
                f"UPDATE {table} SET generation = ? WHERE generation = ? AND view = ?",
                (switch.generation, former, view),
            )
        tx.execute("UPDATE homes SET home = ? WHERE home = ? AND view = ?", (switch.generation, former, view))
        tx.execute("INSERT INTO homes VALUES (?, ?, ?)", (former, view, switch.generation))


def _keep_building(tx: Transaction, former: int, fingerprint: str, now: int) -> None:
    """A generation that begins with everything that the former one has."""
    (made,) = tx.execute(
        "INSERT INTO generations (fingerprint, definition, status, batch, position, created_at, is_former)"
        " SELECT ?, definition, 'building', batch, position, ?, 1 FROM generations WHERE id = ? RETURNING id",
        (fingerprint, now, former),
    ).fetchone()
    tx.execute(
        f"INSERT INTO runs SELECT ?, arrangement, {_RUN} FROM runs WHERE generation = ?",
        (made, former),
    )
    _take_judged(tx, made, former)
