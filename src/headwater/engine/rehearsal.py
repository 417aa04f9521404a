"""A rehearsal: a program runs small batches of a log's newest records, in a log and a store that are thrown away.

Workers start, and Java loads and compiles what real rows need, so that the next batch takes no longer than any other.
"""

from __future__ import annotations

import tempfile
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.pipeline import Pipeline, Program
from headwater.errors import HeadwaterError, RecordFailed
from headwater.log.opening import open_log
from headwater.log.port import Log

ROWS = 200
"""The newest records of a topic that are taken along."""


def rehearse(log: Log, program: Program) -> None:
    """Runs batches that add, delete and add again. Raises what a lost process makes a batch fail with."""
    with (
        tempfile.TemporaryDirectory(prefix="headwater-") as name,
        open_log(Path(name) / "log", durability="os", upkeep=False) as copy,
    ):
        rows = {topic: _newest(log, copy, topic) for topic in program.topics}
        with closing(Pipeline(copy, Path(name) / "views", program, policies={})) as pipeline:
            for deleting in (False, True, False):
                for topic, newest in rows.items():
                    _send(copy, topic, newest, deleting=deleting)
                # A record that makes a view fail does so when its turn comes.
                with suppress(RecordFailed):
                    for _ in pipeline.catch_up():
                        pass


def _newest(log: Log, copy: Log, name: str) -> pa.Table:
    """The newest records of a topic that has a twin now."""
    topic = log.topic(name)
    copy.create(name, topic.schema, key=topic.key)
    offsets = log.offsets(name)
    fullest = max(offsets, key=lambda partition: offsets[partition][1])
    first, end = offsets[fullest]
    columns = [*topic.schema.names, "_deleted"]
    found = log.batches(name, start=max(first, end - ROWS), end=end, columns=columns, partition=fullest)
    tables = [batch.records.filter(pc.invert(batch.records["_deleted"])) for batch in found]
    return pa.concat_tables(tables).select(topic.schema.names) if tables else topic.schema.empty_table()


def _send(copy: Log, name: str, rows: pa.Table, *, deleting: bool) -> None:
    key = copy.topic(name).key
    half = rows.slice(0, rows.num_rows // 2)
    # What the log refuses is no loss here.
    with suppress(HeadwaterError):
        if deleting and key:
            copy.delete(name, half.select(list(key)))
        else:
            copy.append(name, half if deleting else rows)
