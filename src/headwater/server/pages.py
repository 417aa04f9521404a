"""Pages of a topic: some records of all its partitions in commit order, and where the next page begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.log.port import Start as LogStart
from headwater.log.topic import Topic
from headwater.model.encoding import format_instant, json_rows
from headwater.model.position import Position
from headwater.server.filters import Condition, matching


@dataclass(frozen=True, slots=True)
class Start:
    """Where a reading begins: `kind` says which of the others counts. With a partition, only that one is read."""

    kind: str
    number: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    position: Position | None = None
    at: datetime | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Records, and by partition the offset at which the next page begins. `end`: there were no more."""

    records: list[dict[str, object]]
    next: dict[int, int]
    end: bool
    scanned: int

    @property
    def cursor(self) -> str:
        return ".".join(str(offset) for _, offset in sorted(self.next.items()))


def read_page(log: Log, name: str, start: Start, limit: int, conditions: Sequence[Condition], scan_max: int) -> Page:
    """At most `limit` records that meet the conditions, looking through `scan_max` of each partition at most."""
    topic = log.topic(name)
    wanted = range(topic.partitions) if start.partition is None else (start.partition,)
    offsets = _begin(log, topic, start)
    parts: list[pa.Table] = []
    scanned, end = 0, True
    following = dict(offsets)
    for partition in wanted:
        found, following[partition], looked, done = _scan(
            log, name, partition, offsets[partition], limit, conditions, scan_max
        )
        parts += found
        scanned, end = scanned + looked, end and done
    if not parts:
        return Page([], following, end, scanned)
    table = pa.concat_tables(parts).sort_by(
        [("_commit", "ascending"), ("_partition", "ascending"), ("_offset", "ascending")]
    )
    following |= _first_left_over(table.slice(limit))
    return Page(_records(log, topic, table.slice(0, limit)), following, end and table.num_rows <= limit, scanned)


def _scan(
    log: Log, name: str, partition: int, offset: int, limit: int, conditions: Sequence[Condition], scan_max: int
) -> tuple[list[pa.Table], int, int, bool]:
    """Records of one partition, where reading continues, how many were looked at, and whether that was all."""
    found: list[pa.Table] = []
    rows = scanned = 0
    if limit == 0:
        return found, offset, 0, False
    for batch in log.batches(name, start=offset, partition=partition):
        # Only as many as are needed: what is behind them is read with the next page.
        table = batch.records.slice(0, scan_max - scanned)
        cut = table.num_rows < batch.records.num_rows
        kept = matching(table, conditions)
        scanned += table.num_rows
        if rows + kept.num_rows >= limit:
            kept = kept.slice(0, limit - rows)
            cut = True
        if kept.num_rows:
            found.append(kept)
            rows += kept.num_rows
        last = kept if rows >= limit else table
        offset = int(last["_offset"][-1].as_py()) + 1 if cut else batch.next_offset
        if cut or scanned >= scan_max:
            return found, offset, scanned, False
    return found, offset, scanned, True


def _begin(log: Log, topic: Topic, start: Start) -> dict[int, int]:
    """The offset of every partition at which a reading begins. Raises `UsageError`."""
    if start.partition is not None and start.partition >= topic.partitions:
        raise UsageError(f"Topic {topic.name!r} has partitions 0 to {topic.partitions - 1}, not {start.partition}.")
    kept = log.offsets(topic.name)
    match start.kind:
        case "earliest":
            return {partition: first for partition, (first, _) in kept.items()}
        case "latest":
            return {partition: end for partition, (_, end) in kept.items()}
        case "last":
            return {partition: max(first, end - start.number) for partition, (first, end) in kept.items()}
        case "offset":
            return dict.fromkeys(kept, start.number)
        case "offsets":
            if not start.offsets.keys() <= kept.keys():
                raise UsageError(f"Topic {topic.name!r} has {topic.partitions} partitions, not {len(start.offsets)}.")
            return {partition: start.offsets.get(partition, first) for partition, (first, _) in kept.items()}
    place: LogStart = start.position if start.position is not None else start.at or "earliest"
    return {partition: _seek(log, topic.name, partition, place, end) for partition, (_, end) in kept.items()}


def _seek(log: Log, name: str, partition: int, place: LogStart, end: int) -> int:
    for batch in log.batches(name, start=place, partition=partition, columns=["_offset"]):
        return int(batch.records["_offset"][0].as_py())
    return end


def _first_left_over(table: pa.Table) -> dict[int, int]:
    left: dict[int, int] = {}
    for partition, offset in zip(table["_partition"].to_pylist(), table["_offset"].to_pylist(), strict=True):
        left[partition] = min(offset, left.get(partition, offset))
    return left


def _records(log: Log, topic: Topic, table: pa.Table) -> list[dict[str, object]]:
    names = [name for name in topic.schema.names if name in table.column_names]
    system = [table[name].to_pylist() for name in ("_partition", "_offset", "_received_at", "_deleted", "_headers")]
    return [
        {
            "partition": partition,
            "offset": offset,
            "position": str(position),
            "at": format_instant(at),
            "deleted": bool(deleted),
            # Of a deleted record only its key is there.
            "value": {name: row[name] for name in topic.key} if deleted else row,
            "headers": dict(headers or ()),
        }
        for row, position, (partition, offset, at, deleted, headers) in zip(
            json_rows(table.select(names)), log.positions(table), zip(*system, strict=True), strict=True
        )
    ]
