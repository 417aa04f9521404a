"""Runs a line in a peer: its input, a process of its own with a limit of time, its answer and whether it is right."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from bench.engine import truth
from bench.engine.peers import trickle
from bench.engine.peers.answering import Printed, Topic, describe, sentence
from bench.engine.peers.comparison import Standing
from bench.engine.peers.installing import Environment, NotInstalled, Peer, install
from bench.engine.workloads import Workload, write

ROOT = Path(__file__).parents[3]
WARM_ROWS = 2_000


class Field:
    """The peers that take part. One that cannot be installed says so at every line, and the others continue."""

    def __init__(self, peers: Mapping[str, Peer], seconds_max: float, messages: Console) -> None:
        self._peers, self._seconds_max, self._messages = peers, seconds_max, messages
        self._environments: dict[str, Environment | NotInstalled] = {}

    def measure(self, workload: Workload, rows: int, place: Path, expected: pa.Table) -> list[Standing]:
        """All peers at one line, whose input is in `place / "input"`; `expected` is what the view must hold."""
        if not self._peers:
            return []
        _prepare(workload, WARM_ROWS, place / "warm")
        _describe(workload, place / "input")
        return [self._measure(peer, workload, rows, place, expected) for peer in self._peers.values()]

    def latency(self, place: Path, batches: int) -> list[Standing]:
        """Small batches in all peers for which they are measured."""
        source = place / "trickle"
        (source / "items").mkdir(parents=True)
        describe(trickle.LINE, trickle.SQL, {"items": Topic(trickle.COLUMNS, None)}, source)
        standings = []
        for peer in self._peers.values():
            environment = self._environment(peer)
            if isinstance(environment, NotInstalled):
                standings.append(Standing(peer.title, trickle.LINE, error=str(environment)))
            elif peer.has_latency:
                with self._messages.status(f"small batches in {peer.title} ..."):
                    asking = Asking(trickle.LINE, source, source, place / f"{peer.name}-trickle", batches)
                    standings.append(waited(peer.title, ask(peer, environment, asking, self._seconds_max)))
                self._messages.print(f"  {peer.title}: {standings[-1].text}", markup=False)
        return standings

    def _measure(self, peer: Peer, workload: Workload, rows: int, place: Path, expected: pa.Table) -> Standing:
        environment = self._environment(peer)
        if isinstance(environment, NotInstalled):
            return Standing(peer.title, workload.name, error=str(environment))
        source = place / "input"
        if peer.rows_max is not None and peer.rows_max < rows:
            source = place / f"input-{peer.rows_max}"
            if not source.exists():
                _prepare(workload, peer.rows_max, source)
            expected = truth.expected(workload, source)
        with self._messages.status(f"{workload.name} in {peer.title} ..."):
            folder = place / peer.name
            asking = Asking(workload.name, source, place / "warm", folder)
            printed = ask(peer, environment, asking, self._seconds_max)
            standing = judged(peer.title, workload.name, printed, folder / "view.parquet", expected)
            shutil.rmtree(folder)
        self._messages.print(f"  {peer.title}: {standing.text}", markup=False)
        return standing

    def _environment(self, peer: Peer) -> Environment | NotInstalled:
        if peer.requirements not in self._environments:
            try:
                self._environments[peer.requirements] = install(peer, self._messages)
            except NotInstalled as error:
                self._messages.print(f"  {peer.title}: {error}", markup=False)
                self._environments[peer.requirements] = error
        return self._environments[peer.requirements]


@dataclass(frozen=True, slots=True)
class Asking:
    """What a script is asked: a line, its input, and the folder in which it writes."""

    line: str
    source: Path
    warm: Path
    folder: Path
    batches: int = 0


def ask(peer: Peer, environment: Environment, asking: Asking, seconds_max: float) -> Printed:
    """Starts a peer's script; what it answered, or how it ended without an answer."""
    folder = asking.folder
    folder.mkdir()
    command = [str(environment.python), "-m", peer.module, "--line", asking.line, "--input", str(asking.source)]
    command += ["--warm", str(asking.warm), "--output", str(folder / "view.parquet"), "--batches", str(asking.batches)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment.variables}
    said, complained = folder / "stdout", folder / "stderr"
    with said.open("w") as output, complained.open("w") as errors:
        # A session of its own, so that its Java virtual machine and workers end with it.
        process = subprocess.Popen(
            command, cwd=folder, env=variables, stdout=output, stderr=errors, start_new_session=True
        )
        try:
            code = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            return Printed(error=f"not done after {seconds_max:,.0f} s")
        finally:
            _end(process)
    return _printed(said.read_text(errors="replace"), complained.read_text(errors="replace"), code)


def judged(title: str, line: str, printed: Printed, view: Path, expected: pa.Table) -> Standing:
    """An answer, compared with the truth."""
    if printed.error:
        return Standing(title, line, error=printed.error, versions=printed.versions, settings=printed.settings)
    found = pq.read_table(view)
    missing = set(expected.column_names) - set(found.column_names)
    if missing:
        return Standing(title, line, error=f"its view has no column {', '.join(sorted(missing))}")
    return Standing(
        title,
        line,
        rows=printed.rows,
        seconds=printed.seconds,
        start_seconds=printed.start_seconds,
        differing=truth.differing(found.select(expected.column_names), expected),
        note=printed.note,
        versions=printed.versions,
        settings=printed.settings,
    )


def waited(title: str, printed: Printed) -> Standing:
    """An answer to small batches."""
    if printed.error or not printed.milliseconds:
        return Standing(title, trickle.LINE, error=printed.error or "no batch was measured")
    median, tail = (float(np.percentile(printed.milliseconds, part)) for part in (50, 99))
    return Standing(
        title,
        trickle.LINE,
        start_seconds=printed.start_seconds,
        median=median,
        note=f"p99 {tail:,.0f} ms",
        versions=printed.versions,
    )


def _printed(output: str, errors: str, code: int) -> Printed:
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return Printed(**json.loads(line))
    last = sentence("\n".join(reversed(errors.splitlines())))
    return Printed(error=f"ended with code {code} and no answer{f': {last}' if last else ''}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what a script started and left."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        time.sleep(0.5)
    process.wait()


def _prepare(workload: Workload, rows: int, folder: Path) -> None:
    write(workload, rows, folder)
    _describe(workload, folder)


def _describe(workload: Workload, folder: Path) -> None:
    topics = {}
    for name, table in workload.tables.items():
        columns = dict(column.split() for column in table.schema.split(", "))
        topics[name] = Topic(columns, table.key)
    describe(workload.name, workload.sql, topics, folder)
