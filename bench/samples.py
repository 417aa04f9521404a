"""The records that are appended: rows of about 100 bytes in columns, and single records of 1 KB."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

SCHEMA = "id bigint, customer int, amount double, at timestamp, note string"
BATCH_ROWS = 10_000
ROW_BYTES = 100
SMALL_SCHEMA = "id bigint, body string"
SMALL_BYTES = 1024

# id 8, customer 4, amount 8, at 8 bytes, and 4 for where the text ends: the text fills the row up to 100 bytes.
_NOTE_CHARACTERS = ROW_BYTES - 32
_VARIANTS = 20


def batches(*, rows: int = BATCH_ROWS, seed: int = 1) -> Iterator[pa.Table]:
    """Tables of `rows` rows for ever. Some are made and take turns: making them costs nothing while one measures."""
    random = np.random.default_rng(seed)
    return itertools.cycle([_table(random, rows) for _ in range(_VARIANTS)])


def small_record(number: int) -> dict[str, object]:
    """One record of 1 KB: a number and a text that repeats little."""
    return {"id": number, "body": _BODIES[number % len(_BODIES)]}


def dicts(table: pa.Table) -> list[dict[str, object]]:
    """The same rows as Python values."""
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def json_lines(table: pa.Table) -> bytes:
    """The same rows as JSON, one object per line."""
    return b"\n".join(json.dumps(row, default=lambda at: at.isoformat()).encode() for row in dicts(table))


def _table(random: np.random.Generator, rows: int) -> pa.Table:
    text = random.bytes(rows * _NOTE_CHARACTERS // 2).hex()
    notes = [text[at : at + _NOTE_CHARACTERS] for at in range(0, len(text), _NOTE_CHARACTERS)]
    return pa.table(
        {
            "id": pa.array(random.integers(0, 1 << 40, rows)),
            "customer": pa.array(random.integers(0, 100_000, rows), pa.int32()),
            "amount": pa.array(random.random(rows)),
            "at": pa.array(
                random.integers(1_700_000_000_000_000, 1_800_000_000_000_000, rows), pa.timestamp("us", "UTC")
            ),
            "note": pa.array(notes),
        }
    )


# The number takes 8 bytes of the 1,024.
_BODIES = [np.random.default_rng(seed).bytes((SMALL_BYTES - 8) // 2).hex() for seed in range(256)]
