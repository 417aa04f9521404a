"""Packing: the changes of many small batches, which are kept for subscribers, move together into few files.

A batch writes a file or more, and its changes are kept long after its state was merged into other files. Sections are
copied as they are, so a subscriber gets the same changes from a pack as from the files of the batches.
"""

from __future__ import annotations

import json

from headwater.engine.blobs import Blobs
from headwater.engine.relational.database import Database
from headwater.engine.runs import OWN_FILE_BYTES, Run, RunWriter

PACK = "changes"
"""What the names of packs begin with."""

PACK_BYTES_MAX = 32 << 20
"""A pack that has become so large is complete."""

_Row = tuple[int, str, int, int]
"""A row of the table of changes: generation, view, batch, number."""


def pack(database: Database, blobs: Blobs) -> int:
    """Moves changes out of the files of batches; how many. What is damaged or has its own file stays where it is.

    Only a driver may do so, between two batches. Files that were packed are unnamed when it returns, unless state is
    still in them.
    """
    files = _unpacked(database)
    if len(files) < 2:
        return 0
    moved = _copied(files, blobs)
    with database.write() as tx:
        # Another driver that took over may have packed or forgotten some of them; then nothing names the copy.
        tx.executemany(
            "UPDATE changes SET run = ?, file = ?"
            " WHERE generation = ? AND view = ? AND batch = ? AND number = ? AND file = ?",
            [(json.dumps(to.to_json()), to.file, *row, run.file) for row, run, to in moved],
        )
    return len(moved)


def _unpacked(database: Database) -> dict[str, dict[Run, _Row]]:
    """The small changes that lie in files of batches, by file."""
    query = (
        "SELECT generation, view, batch, number, run FROM changes WHERE file NOT LIKE ? AND file != '' ORDER BY batch"
    )
    found: dict[str, dict[Run, _Row]] = {}
    with database.read() as tx:
        for generation, view, batch, number, text in tx.execute(query, (f"{PACK}-%",)):
            run = Run.from_json(json.loads(text))
            if run.bytes < OWN_FILE_BYTES:
                found.setdefault(run.file, {})[run] = (generation, view, batch, number)
    return found


def _copied(files: dict[str, dict[Run, _Row]], blobs: Blobs) -> list[tuple[_Row, Run, Run]]:
    """Every row with its run, and with the run that takes its place."""
    copied: list[tuple[_Row, Run, Run]] = []
    writer = RunWriter(blobs, name=PACK)
    for file, rows in files.items():
        copied += [(rows[run], run, to) for run, to in writer.copy(file, list(rows)).items()]
        if writer.shared_bytes >= PACK_BYTES_MAX:
            writer.close()
            writer = RunWriter(blobs, name=PACK)
    writer.close()
    return copied
