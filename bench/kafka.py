"""Measures a log on Kafka beside the embedded one and Kafka's own tools, in one run: `python -m bench.kafka --help`."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

import headwater as hw
from headwater.testing.kafka import VERSION, command, running

SCHEMA = "id bigint, k bigint, v bigint, pad string"
PAD = "x" * 60
KAFKA_TOOLS = "org.apache.kafka.tools"


@dataclass(frozen=True, slots=True)
class Line:
    """One figure for each of the three; None where there is none."""

    what: str
    unit: str
    embedded: float | None
    kafka: float | None
    kafkas_tool: float | None = None


def rows(first: int, count: int) -> pa.Table:
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.table({"id": ids, "k": ids, "v": ids, "pad": [PAD] * count})


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def commits_per_second(log: hw.Log, commits: int) -> float:
    log.create("single", SCHEMA, exist_ok=True)
    log.append("single", rows(0, 1))
    return commits / seconds(lambda: [log.append("single", rows(number, 1)) for number in range(commits)])


def rows_per_second(log: hw.Log, total: int, batch: int) -> tuple[float, float]:
    """Appended and read, in records."""
    log.create("many", SCHEMA, exist_ok=True)
    tables = [rows(first, batch) for first in range(0, total, batch)]
    appended = total / seconds(lambda: [log.append("many", table) for table in tables])
    read = total / seconds(lambda: log.scan("many"))
    return appended, read


def commit_to_reader(log: hw.Log, count: int) -> float:
    """Milliseconds from the beginning of an append to its record in a follower's hands, as a median."""
    log.create("followed", SCHEMA, exist_ok=True)
    following = log.read("followed", follow=True, idle_timeout="20 seconds")

    def there_and_back() -> None:
        log.append("followed", rows(0, 1))
        next(following)

    there_and_back()
    took = [seconds(there_and_back) for _ in range(count)]
    return sorted(took)[count // 2] * 1000


def producer_perf(servers: str, total: int, size: int) -> float:
    """Records per second, as Kafka's own producer measures: acknowledged by all, in transactions."""
    said = subprocess.run(
        command([f"{KAFKA_TOOLS}.ProducerPerformance", "--topic", "perf", "--num-records", str(total), "--throughput",
                 "-1", "--record-size", str(size), "--transactional-id", "perf", "--transaction-duration-ms", "1000",
                 "--producer-props", f"bootstrap.servers={servers}", "acks=all", "compression.type=lz4"]),
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return float(said.strip().splitlines()[-1].split("records/sec")[0].split(",")[1])


def consumer_perf(servers: str, total: int) -> float:
    said = subprocess.run(
        command([f"{KAFKA_TOOLS}.ConsumerPerformance", "--bootstrap-server", servers, "--topic", "perf",
                 "--messages", str(total), "--timeout", "60000"]),
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    names, values = [line.split(", ") for line in said.strip().splitlines()[-2:]]
    return float(values[names.index("fetch.nMsg.sec")])


def measure(servers: str, embedded: hw.Log, kafka: hw.Log, total: int) -> Iterator[Line]:
    commits = max(20, total // 2000)
    yield Line("commits of one record", "commits/s", *(commits_per_second(log, commits) for log in (embedded, kafka)))
    ours, theirs = (rows_per_second(log, total, 20_000) for log in (embedded, kafka))
    size = len(json.dumps({"id": total, "k": total, "v": total, "pad": PAD}))
    subprocess.run(
        command([f"{KAFKA_TOOLS}.TopicCommand", "--bootstrap-server", servers, "--create", "--topic", "perf"]),
        check=True, capture_output=True,
    )  # fmt: skip
    yield Line("append, 20,000 records a commit", "records/s", ours[0], theirs[0], producer_perf(servers, total, size))
    yield Line("read", "records/s", ours[1], theirs[1], consumer_perf(servers, total))
    yield Line("commit to follower", "ms", *(commit_to_reader(log, 50) for log in (embedded, kafka)))


def main(
    *,
    records: Annotated[int, typer.Option(help="How many records are appended and read.", min=20_000)] = 400_000,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the lines to this file.")] = None,
) -> None:
    """Appends and reads the same records with both logs, and as many of the same size with Kafka's own tools."""
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-kafka-"))
    try:
        with (
            running() as cluster,
            hw.open(directory / "log") as embedded,
            hw.open(f"{cluster.url('bench')}?state={directory}") as kafka,
        ):
            lines = list(measure(cluster.servers, embedded, kafka, records))
    finally:
        shutil.rmtree(directory)
    print(f"Kafka {VERSION}, one node on this machine ({platform.machine()}), {records:,} records of about 100 bytes\n")
    print("| | unit | embedded | on Kafka | Kafka's own tool |\n|---|---|---|---|---|")
    for line in lines:
        figures = (line.embedded, line.kafka, line.kafkas_tool)
        shown = " | ".join(
            "" if figure is None else f"{figure:,.3g}" if figure < 100 else f"{figure:,.0f}" for figure in figures
        )
        print(f"| {line.what} | {line.unit} | {shown} |")
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(line) for line in lines], indent=1) + "\n")


def _shown(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.3g}" if figure < 100 else f"{figure:,.0f}"


if __name__ == "__main__":
    typer.run(main)
