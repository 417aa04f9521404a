"""How a peer is asked for a line and how it answers; for scripts that have pyarrow, but not headwater.

A script gets a folder with `line.json` and the Parquet files of `bench.engine.workloads`, and a small one of the same
shape to start with. It writes the rows of the view in the end as one Parquet file, and prints its answer as one line of
JSON: what it took, or why it cannot.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

CORES = 2
ERROR_LENGTH_MAX = 240


@dataclass(frozen=True, slots=True)
class Topic:
    """A stream, or a table if it has a key; `columns` are its own, in SQL types, without `deleted` and `seq`."""

    columns: Mapping[str, str]
    key: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """A query over topics. `source` holds a folder of files per topic, `warm` a few rows of the same kind."""

    line: str
    sql: str
    topics: Mapping[str, Topic]
    source: Path
    warm: Path
    work: Path
    """A folder for what is needed on the way."""
    batches: int = 0
    """How many small batches are measured, for the line that measures them."""

    def files(self, topic: str) -> list[Path]:
        return sorted((self.source / topic).glob("*.parquet"))

    @property
    def rows(self) -> int:
        """How many rows the input has."""
        return sum(pq.read_metadata(file).num_rows for name in self.topics for file in self.files(name))


@dataclass(frozen=True, slots=True)
class Answer:
    """`seconds` are from the first row to the last result, `start_seconds` all that came before.

    For small batches there is no view, but the milliseconds that each took.
    """

    view: pa.Table
    seconds: float
    start_seconds: float
    versions: Mapping[str, str]
    settings: Mapping[str, str]
    note: str = ""
    milliseconds: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Printed:
    """What a script prints: of `error` and the rest, one is empty."""

    rows: int = 0
    seconds: float = 0.0
    start_seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    milliseconds: Sequence[float] = ()
    error: str = ""


class CanNot(Exception):
    """The system refused; the message is its own."""


def describe(line: str, sql: str, topics: Mapping[str, Topic], folder: Path) -> None:
    """Writes what `asked` reads."""
    content = {"line": line, "sql": sql, "topics": {name: asdict(topic) for name, topic in topics.items()}}
    (folder / "line.json").write_text(json.dumps(content, indent=2))


def asked(source: Path, warm: Path, work: Path, batches: int) -> Question:
    content = json.loads((source / "line.json").read_text())
    topics = {name: Topic(**topic) for name, topic in content["topics"].items()}
    return Question(content["line"], content["sql"], topics, source, warm, work, batches)


def keep_to_cores() -> None:
    """Keeps this process, and all that it starts, to the first two cores that it may use."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def main(run: Callable[[Question], Answer]) -> None:
    """Runs a script: reads its arguments, keeps it to two cores, writes and prints its answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--line", required=True, help="The name of the line, as in bench.engine.workloads.")
    parser.add_argument("--input", type=Path, required=True, help="The folder that has the line's input.")
    parser.add_argument("--warm", type=Path, required=True, help="A folder with a few rows of the same kind.")
    parser.add_argument("--output", type=Path, required=True, help="The Parquet file that gets the view.")
    parser.add_argument("--batches", type=int, default=0, help="How many small batches are measured, if any.")
    options = parser.parse_args()
    keep_to_cores()
    with tempfile.TemporaryDirectory(prefix="work-", dir=options.output.parent) as work:
        question = asked(options.input.resolve(), options.warm.resolve(), Path(work).resolve(), options.batches)
        if question.line != options.line:
            parser.error(f"the input is that of the line {question.line}")
        printed = _run(run, question, options.output)
        # Threads of a peer may continue for ever; what it had to say is said.
        sys.stdout.write("\n" + json.dumps(asdict(printed)) + "\n")
        sys.stdout.flush()


def _run(run: Callable[[Question], Answer], question: Question, output: Path) -> Printed:
    try:
        answer = run(question)
        pq.write_table(answer.view, output)
    except Exception as error:  # noqa: BLE001 whatever a peer raises is its answer
        traceback.print_exc()
        return Printed(error=sentence(str(error) or type(error).__name__))
    return Printed(
        question.rows,
        answer.seconds,
        answer.start_seconds,
        answer.versions,
        answer.settings,
        answer.note,
        answer.milliseconds,
    )


def sentence(message: str) -> str:
    """The first line that says something; if it is long, its first sentences."""
    lines = [re.sub(r"\s+", " ", line).strip() for line in message.splitlines()]
    first = next((line for line in lines if line), "")
    if len(first) <= ERROR_LENGTH_MAX:
        return first
    whole, stop, _ = first[:ERROR_LENGTH_MAX].rpartition(". ")
    return whole + "." if stop else first[: ERROR_LENGTH_MAX - 4].rstrip() + " ..."


def netted(changes: pa.Table, weight: str) -> pa.Table:
    """The rows that are left of changes with a weight: as often as their weights add up to."""
    names = [name for name in changes.column_names if name != weight]
    sums = changes.group_by(names).aggregate([(weight, "sum")])
    counts = sums[f"{weight}_sum"].combine_chunks()
    if counts.null_count or pc.any(pc.less(counts, 0)).as_py():
        raise CanNot("more rows were retracted than there were")
    return sums.select(names).take(pa.array(_repeated(counts.to_pylist()), pa.int64()))


def _repeated(counts: list[int]) -> list[int]:
    return [index for index, count in enumerate(counts) for _ in range(count)]


def newest(versions: pa.Table, key: str, order: str) -> pa.Table:
    """Of all rows with the same key the one that comes last in an order, without the order's column."""
    ordered = versions.take(pc.sort_indices(versions[order]))
    places = pa.table({"key": ordered[key], "place": pa.array(range(ordered.num_rows), pa.int64())})
    last = places.group_by("key").aggregate([("place", "max")])["place_max"]
    return ordered.take(last).drop_columns([order])
