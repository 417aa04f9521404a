"""A pipeline's driver that publishes a known history for ever, to be killed: `python -m tests.recovery.engine_victim`.

Batch by batch, two views get the same rows. It prints each batch that it knows to be committed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from headwater.errors import Fenced
from tests.unit.engine.samples import Driver, zset

VIEWS = ("left", "right")
COLLECT_EVERY = 10


def history() -> Iterator[pa.Table]:
    """The change of each batch: some keys get a new row, and their old one is retracted."""
    last: dict[int, str] = {}
    batch = 0
    while True:
        batch += 1
        rows = []
        for key in {batch % 20, batch * 7 % 13, batch * batch % 50}:
            hashed = (key * 0x9E3779B97F4A7C15) % 2**64 - 2**63
            if key in last:
                rows.append((hashed, key, last[key], -1))
            last[key] = str(batch)
            rows.append((hashed, key, last[key], 1))
        yield zset(*rows)


def content_at(batch: int) -> Counter[tuple[int, str]]:
    """What both views hold after a batch."""
    total: Counter[tuple[int, str]] = Counter()
    for table in islice(history(), batch):
        for row in table.to_pylist():
            total[row["key"], row["text"]] += row["_w"]
    return Counter({row: weight for row, weight in total.items() if weight})


def say(text: str) -> None:
    """One line in one write: a kill must not leave half of it, also where Python does not buffer its output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(directory: Path) -> None:
    driver = Driver(directory, views=VIEWS)
    say(f"= {driver.batch}")
    try:
        for change in islice(history(), driver.batch, None):
            driver.publish(dict.fromkeys(VIEWS, change))
            say(f"! {driver.batch}")
            if driver.batch % COLLECT_EVERY == 0:
                driver.store.collect()
    except Fenced:
        say("fenced")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
