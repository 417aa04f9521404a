"""A line of the benchmark in Flink SQL, in streaming mode, with its result written as a changelog in Parquet."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyflink.common import Configuration, RowKind
from pyflink.table import EnvironmentSettings, TableEnvironment
from pyflink.util.exceptions import JavaException

from bench.engine.peers import trickle
from bench.engine.peers.answering import CORES, Answer, CanNot, Question, main, netted

JARS = "HEADWATER_BENCH_JARS"
"""The variable that names the folder of jars which apache-flink does not bring: Parquet, and Hadoop for it."""

SETTINGS = {
    "parallelism.default": str(CORES),
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "200000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}


PROMPT = {
    "parallelism.default": str(CORES),
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "execution.buffer-timeout.interval": "1 ms",
}
"""For small batches nothing is held back."""

PATIENT = {"pekko.ask.timeout": "10 min", "heartbeat.timeout": "10 min", "slot.request.timeout": "10 min"}
"""A busy machine is no reason to give up; nothing gets faster or slower by it."""


def run(question: Question) -> Answer:
    try:
        return _trickled(question) if question.line == trickle.LINE else _backlog(question)
    except (Py4JError, JavaException) as error:
        raise CanNot(_cause(str(error))) from error


def _backlog(question: Question) -> Answer:
    began = time.monotonic()
    settings = {**SETTINGS, **_overridden()}
    # The same job over a few rows: a Java virtual machine, its classes and a first mini-cluster are the start.
    _job(question, settings, question.warm, question.work / "warm")
    seconds = _job(question, settings, question.source, question.work / "changes")
    start_seconds = time.monotonic() - began - seconds
    return Answer(_view(question.work / "changes"), seconds, start_seconds, _versions(), settings)


def _versions() -> dict[str, str]:
    return {"apache-flink": version("apache-flink")}


def _trickled(question: Question) -> Answer:
    """Files that appear in a folder, and the result as the client gets it."""
    began = time.monotonic()
    trickled = trickle.Trickle(question.batches)
    send = trickle.drop_parquet(question.work / "items")
    environment = _environment(PROMPT)
    for statement in _statements(question, question.work, ", 'source.monitor-interval' = '10 ms'"):
        environment.execute_sql(statement)
    rows = environment.execute_sql("SELECT * FROM outcome").collect()

    def listen() -> None:
        for row in rows:
            if row.get_row_kind() in {RowKind.INSERT, RowKind.UPDATE_AFTER}:
                trickled.note(row[0], row[1])

    threading.Thread(target=listen, daemon=True).start()
    milliseconds = trickled.run(send)
    taken = sum(milliseconds) / 1000
    start_seconds = time.monotonic() - began - taken
    return Answer(pa.table({}), taken, start_seconds, _versions(), PROMPT, milliseconds=milliseconds)


def _job(question: Question, settings: Mapping[str, str], source: Path, output: Path) -> float:
    """Runs the query over a folder; how many seconds the job itself took, without planning and the cluster's start."""
    environment = _environment(settings)
    for statement in _statements(question, source):
        environment.execute_sql(statement)
    job = environment.execute_sql(
        f"CREATE TABLE changes WITH ('connector' = 'filesystem', 'path' = 'file://{output}', 'format' = 'parquet') "
        "AS SELECT * FROM TO_CHANGELOG(input => TABLE outcome)"
    ).get_job_client()
    return float(job.get_job_execution_result().result().get_net_runtime()) / 1000


def _environment(settings: Mapping[str, str]) -> TableEnvironment:
    configuration = Configuration()
    for name, value in {**settings, **PATIENT}.items():
        configuration.set_string(name, value)
    jars = ";".join(f"file://{jar}" for jar in sorted(Path(os.environ[JARS]).glob("*.jar")))
    configuration.set_string("pipeline.jars", jars)
    configuration.set_string("pipeline.classpaths", jars)
    return TableEnvironment.create(
        EnvironmentSettings.new_instance().with_configuration(configuration).in_streaming_mode().build()
    )


def _statements(question: Question, source: Path, options: str = "") -> list[str]:
    """Each topic as Flink sees it. Readers of files share them out, so only `seq` says which row of a key is newest."""
    statements = []
    for name, topic in question.topics.items():
        own = "".join(f"`{column}` {kind}, " for column, kind in topic.columns.items())
        kept = ", ".join(f"`{column}`" for column in topic.columns)
        files = f"'connector' = 'filesystem', 'path' = 'file://{source / name}', 'format' = 'parquet'{options}"
        if topic.key is None:
            statements.append(f"CREATE TABLE {name} ({own}seq BIGINT) WITH ({files})")
            continue
        ranked = (
            f"SELECT *, row_number() OVER (PARTITION BY {topic.key} ORDER BY seq DESC) AS newest FROM {name}_changes"
        )
        statements += [
            f"CREATE TABLE {name}_changes ({own}deleted BOOLEAN, seq BIGINT) WITH ({files})",
            f"CREATE TEMPORARY VIEW {name} AS SELECT {kept} FROM ({ranked}) WHERE newest = 1 AND NOT deleted",
        ]
    return [*statements, f"CREATE TEMPORARY VIEW outcome AS {question.sql}"]


def _view(folder: Path) -> pa.Table:
    changes = pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("part-*")))
    added = pc.is_in(changes["op"], pa.array(["INSERT", "UPDATE_AFTER"]))
    weights = pc.if_else(added, 1, -1)
    return netted(changes.drop_columns(["op"]).append_column("weight", weights), "weight")


def _cause(trace: str) -> str:
    """What the innermost Java exception of a stack trace says."""
    causes = [line.partition("Caused by: ")[2] for line in trace.splitlines() if "Caused by: " in line]
    return causes[-1] if causes else trace


def _overridden() -> dict[str, str]:
    """Settings to try: `name=value` pairs, separated by semicolons."""
    given = os.environ.get("HEADWATER_BENCH_FLINK", "")
    return dict(pair.split("=", 1) for pair in given.split(";") if pair)


if __name__ == "__main__":
    main(run)
