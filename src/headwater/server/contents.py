"""The content of views as tables, kept while nothing newer is published, so that a next page costs little."""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import timedelta

import pyarrow as pa

from headwater.engine.reading import Reader, Snapshot
from headwater.model.position import Position

KEPT_BYTES_MAX = 256 << 20


class Contents:
    """Reads whole views, from any thread."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._turn = threading.Lock()
        self._kept: OrderedDict[str, tuple[int, Snapshot]] = OrderedDict()

    def read(self, view: str, at_least: Position | None) -> tuple[Position, pa.Table]:
        """The rows of a view that is published as far as `at_least`. Raises `UnknownView`, `NotYet`."""
        current = self._reader.current()
        with self._turn:
            batch, held = self._kept.get(view, (-1, None))
        fresh = current is not None and held is not None and (held.generation, batch) == (current.id, current.batch)
        if held is not None and fresh:
            return held.position, held.tables[view]
        snapshot = self._reader.read([view], at_least, timedelta(0))
        if current is not None and snapshot.generation == current.id and snapshot.position == current.position:
            self._keep(view, current.batch, snapshot)
        return snapshot.position, snapshot.tables[view]

    def read_at(self, view: str, at: Position) -> tuple[Position, pa.Table]:
        """The rows of a view as it was at a position. Raises as `Reader.read_at`."""
        snapshot = self._reader.read_at([view], at, timedelta(0))
        return snapshot.position, snapshot.tables[view]

    def _keep(self, view: str, batch: int, snapshot: Snapshot) -> None:
        with self._turn:
            self._kept[view] = (batch, snapshot)
            self._kept.move_to_end(view)
            while sum(held.tables[name].nbytes for name, (_, held) in self._kept.items()) > KEPT_BYTES_MAX:
                self._kept.popitem(last=False)
