"""Runs an application with 22 views under a steady load, and tells what grows: memory, descriptors, threads, files.

    python -m tools.soak --minutes 60 --json soak.json --chart docs/pictures/soak.svg

`headwater run` with its server, a writer at 200 commits/s, readers over HTTP. Everything that it starts ends with it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headwater.engine.reading import Reader
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of
from tools.soak_chart import svg
from tools.soak_watch import (
    DRIVER,
    JAVA,
    MIB,
    WORKERS,
    WRITER,
    Growth,
    Held,
    Kept,
    Sample,
    from_json,
    growth_of,
    look_at,
    look_at_files,
    look_at_tree,
)

ROOT = Path(__file__).parents[1]
NAME = "soak"
END_SECONDS_MAX = 60.0
START_SECONDS_MAX = 300.0
messages = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, metavar="M", help="how long, from the first batch")
    parser.add_argument("--warm", type=float, metavar="M", help="minutes before growth counts; a third, ten at most")
    parser.add_argument("--rate", type=float, default=200.0, metavar="N", help="commits a second")
    parser.add_argument("--every", type=float, default=5.0, metavar="S", help="seconds between two looks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every look to this file")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw them to this file, as SVG")
    parser.add_argument("--redraw", type=Path, metavar="FILE", help="run nothing, and report what this file holds")
    parser.add_argument("--directory", type=Path, metavar="FOLDER", help="where to write; the disk that is used")
    return parser.parse_args(arguments)


class Soak:
    """The application and its load, as processes in a folder."""

    def __init__(self, place: Path, rate: float) -> None:
        self.place, self.log, self._rate = place, place / "log", rate
        self._port = _free_port()
        self._started: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it, everything runs. Raises `RuntimeError` if the views do not come up."""
        command = "import headwater.cli; headwater.cli.main()"
        arguments = ["run", str(Path(__file__).with_name("soak_app.py")), "--json", "--port", str(self._port)]
        try:
            self._start("run", "-c", command, *arguments)
            self._wait_for_views()
            self._start("load", "-m", "tools.soak_load", str(self.log), "--rate", str(self._rate), "--url", self._url)
            yield
        finally:
            for process in reversed(self._started):
                end(process)

    def look(self, seconds: float, reader: Reader) -> Sample:
        """One sample. Raises `RuntimeError` if a process has ended."""
        for process in self._started:
            if process.poll() is not None:
                raise RuntimeError(f"A process ended with {process.returncode}; see {self.place}.")
        run, load = self._started
        found = Sample(seconds, {**look_at_tree(run.pid), WRITER: look_at(load.pid)}, look_at_files(self.log, NAME))
        with EmbeddedLog(self.log) as log:
            found.commits = commit_of(log.position())
        generation = reader.current()
        if generation is not None:
            found.batches = generation.batch
            found.behind = found.commits - commit_of(generation.position)
        return found

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def _start(self, name: str, *arguments: str) -> None:
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": paths, "SOAK_LOG": str(self.log)}
        with (self.place / f"{name}.out").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=self.place, env=environment, stdin=subprocess.DEVNULL,
                stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._started.append(process)

    def _wait_for_views(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        with Reader(self.log / "pipelines" / NAME) as reader:
            while reader.current() is None:
                if self._started[0].poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"The views did not come up: {(self.place / 'run.out').read_text()[-2000:]}")
                time.sleep(0.2)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, and whatever it leaves behind."""
    below = _tree(process.pid)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS_MAX)
    for number in (process.pid, *below) if process.poll() is None else below:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait()


def _tree(process: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in children.read_text().split():
                found += [int(child), *_tree(int(child))]
    return found


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def watch(soak: Soak, options: argparse.Namespace) -> list[Sample]:
    """Looks every few seconds, and says what it sees in a line."""
    samples: list[Sample] = []
    began = time.monotonic()
    with Reader(soak.log / "pipelines" / NAME) as reader:
        while (seconds := time.monotonic() - began) < options.minutes * 60:
            samples.append(soak.look(seconds, reader))
            say(samples[-1])
            if options.json is not None:
                write(options.json, samples, options)
            time.sleep(max(0.0, began + len(samples) * options.every - time.monotonic()))
    return samples


def say(sample: Sample) -> None:
    """The line of one look."""
    held = {role: sample.held.get(role, Held()).pss / MIB for role in (DRIVER, JAVA, WORKERS)}
    runs = sample.kept.get("runs", Kept())
    messages.print(
        f"{sample.seconds / 60:5.1f} min  {sample.pss / MIB:,.0f} MiB ("
        + ", ".join(f"{role} {size:,.0f}" for role, size in held.items())
        + f")  {runs.files:,} run files, {runs.bytes / MIB:,.1f} MiB  {sample.batches:,} batches, "
        f"{sample.commits:,} commits, {sample.behind:,} behind"
    )


def write(path: Path, samples: Sequence[Sample], options: argparse.Namespace) -> None:
    conditions = {"minutes": options.minutes, "rate": options.rate, "cores": os.cpu_count()}
    content = {"conditions": conditions, "samples": [sample.to_json() for sample in samples]}
    path.write_text(json.dumps(content) + "\n")


def report(growth: dict[str, list[Growth]]) -> Table:
    """What each figure was after the warm-up and at the end, and how fast it grew."""
    table = Table("", "figure", "after warm-up", "at the end", "per hour")
    for title, found in growth.items():
        for number, one in enumerate(found):
            values = [f"{value:,.1f} {one.unit}".strip() for value in (one.first, one.last)]
            table.add_row("" if number else title, one.name, *values, f"{one.per_hour:+,.1f} {one.unit}".strip())
    return table


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    if options.redraw is not None:
        samples = [from_json(value) for value in json.loads(options.redraw.read_text())["samples"]]
    else:
        with tempfile.TemporaryDirectory(prefix="headwater-soak-", dir=options.directory) as place:
            soak = Soak(Path(place), options.rate)
            messages.print("Starting the application ...")
            with soak.running():
                samples = watch(soak, options)
    minutes = samples[-1].seconds / 60
    warm = min(10.0, minutes / 3) if options.warm is None else options.warm
    if options.chart is not None:
        options.chart.write_text(svg(samples))
    Console(width=None if sys.stdout.isatty() else 140).print(report(growth_of(samples, warm * 60)))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main(sys.argv[1:])
