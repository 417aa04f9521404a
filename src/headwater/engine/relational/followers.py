"""Followers in a store's database: what each holds, and what is forgotten because it is old and nobody holds it.

A follower has every change up to its `low` and takes those up to its `high`, which stay as they are. What lies behind
may be squashed, so wherever a follower stops in between, it can continue.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.engine.arrangements import arrangement_of
from headwater.engine.relational.bases import drop_bases
from headwater.engine.relational.database import Transaction
from headwater.engine.relational.look import home_of
from headwater.engine.view_store import HELD_CHANGES

_HELD = "SELECT min(low) FROM followers f WHERE f.generation = c.generation AND f.view = c.view"


def hold(tx: Transaction, follower: str, view: str, places: Mapping[int, int], batch: int) -> int:
    """As `ViewStore.hold`."""
    if not places:
        tx.execute("DELETE FROM followers WHERE name = ?", (follower,))
        return batch
    places = _at_home(tx, view, places)
    # What was handed out of an older generation may be on its way.
    highs = dict(tx.execute("SELECT generation, high FROM followers WHERE name = ? AND view = ?", (follower, view)))
    newest = list(places)[-1]
    highs[newest] = _next_high(tx, newest, view, batch)
    tx.execute("DELETE FROM followers WHERE name = ?", (follower,))
    tx.executemany(
        "INSERT INTO followers VALUES (?, ?, ?, ?, ?)",
        [(follower, view, number, low, max(low, highs.get(number, low))) for number, low in places.items()],
    )
    return int(highs[newest])


def _at_home(tx: Transaction, view: str, places: Mapping[int, int]) -> dict[int, int]:
    """The places in the generations that have the view's history now, of each the first."""
    found: dict[int, int] = {}
    for generation, batch in places.items():
        found.setdefault(home_of(tx, generation, view), batch)
    return found


def _next_high(tx: Transaction, generation: int, view: str, batch: int) -> int:
    """The batch of the last change that a follower may take, or one that is still to come."""
    row = tx.execute(
        "SELECT DISTINCT batch FROM changes WHERE generation = ? AND view = ? AND batch > ?"
        " ORDER BY batch LIMIT 1 OFFSET ?",
        (generation, view, batch, HELD_CHANGES - 1),
    ).fetchone()
    if row is not None:
        return int(row[0])
    last = tx.execute("SELECT batch FROM generations WHERE id = ?", (generation,)).fetchone()
    return max(batch, 0 if last is None else last[0]) + HELD_CHANGES


def release(tx: Transaction, kept: Mapping[str, str]) -> None:
    """As `ViewStore.release`."""
    for name, view in tx.execute("SELECT DISTINCT name, view FROM followers").fetchall():
        if kept.get(name) != view:
            tx.execute("DELETE FROM followers WHERE name = ?", (name,))


def forget_generations(tx: Transaction, before: int) -> int:
    """Forgets generations retired before a time, but for the views that a follower has still to leave; how many."""
    query = "SELECT id FROM generations WHERE status = 'retired' AND retired_at < ?"
    count = 0
    for (number,) in tx.execute(query, (before,)).fetchall():
        found = tx.execute("SELECT DISTINCT view FROM followers WHERE generation = ?", (number,)).fetchall()
        if found:
            _strip(tx, number, [view for (view,) in found])
            continue
        for table in ("runs", "published", "changes", "forgotten", "excluded", "judged"):
            tx.execute(f"DELETE FROM {table} WHERE generation = ?", (number,))
        drop_bases(tx, number)
        tx.execute("DELETE FROM generations WHERE id = ?", (number,))
        tx.execute("DELETE FROM homes WHERE home = ?", (number,))
        count += 1
    return count


def _strip(tx: Transaction, generation: int, views: list[str]) -> None:
    """Leaves the content and the changes of some views, of which followers get the difference to what is there now."""
    tx.execute("UPDATE generations SET stripped = 1 WHERE id = ?", (generation,))
    drop_bases(tx, generation)
    marks = ", ".join("?" * len(views))
    named = [arrangement_of(view) for view in views]
    tx.execute(f"DELETE FROM runs WHERE generation = ? AND arrangement NOT IN ({marks})", (generation, *named))
    tx.execute(f"DELETE FROM changes WHERE generation = ? AND view NOT IN ({marks})", (generation, *views))
    for table in ("published", "excluded", "judged"):
        tx.execute(f"DELETE FROM {table} WHERE generation = ?", (generation,))


def forget_changes(tx: Transaction, before: int, batches_max: int) -> tuple[int, dict[int, int]]:
    """Forgets batches that are too many or too old, and remembers up to where each view's changes are gone.

    How many changes were forgotten, and by generation the last batch whose changes are kept for followers only.
    """
    count, limits = 0, {}
    for number, last, stripped in tx.execute("SELECT id, batch, stripped FROM generations").fetchall():
        (old,) = tx.execute(
            "SELECT coalesce(max(batch), 0) FROM published WHERE generation = ? AND published_at < ?", (number, before)
        ).fetchone()
        # The last batch stays, whatever its age: it tells when the views were last published.
        limit = limits[number] = last if stripped else min(max(old, last - batches_max), last - 1)
        old_changes = f"generation = ? AND batch <= ? AND batch <= coalesce(({_HELD}), ?)"
        newest = tx.execute(
            f"SELECT view, max(batch) FROM changes AS c WHERE {old_changes} GROUP BY view", (number, limit, limit)
        ).fetchall()
        tx.executemany(
            "INSERT INTO forgotten SELECT DISTINCT generation, view, batch, position FROM changes"
            " WHERE generation = ? AND view = ? AND batch = ?"
            " ON CONFLICT (generation, view) DO UPDATE SET batch = excluded.batch, position = excluded.position",
            [(number, view, batch) for view, batch in newest],
        )
        tx.execute(f"DELETE FROM changes AS c WHERE {old_changes}", (number, limit, limit))
        count += tx.changes()
        tx.execute("DELETE FROM published WHERE generation = ? AND batch <= ?", (number, limit))
    return count, limits
