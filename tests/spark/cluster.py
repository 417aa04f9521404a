"""A Spark cluster for tests: one master and two workers on this machine, from the pyspark package itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from headwater.spark.archive import archive_options

# As for all Java of the tests: it compiles for short runs. The workers hand it on to their executors.
_JAVA = f"-XX:TieredStopAtLevel=1 {archive_options()}"
_START_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where it is, the homes of its workers, and their processes."""

    master: str
    homes: list[Path]
    workers: list[subprocess.Popen[bytes]]

    def kill_worker(self) -> None:
        """Kills one worker with all its executors."""
        worker = self.workers.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@contextmanager
def spark_cluster(directory: Path) -> Iterator[Cluster]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
        # Each has its own home and its own place for temporary files, as machines have.
        home_of = directory / f"home of {name}"
        home_of.mkdir()
        environment |= {"SPARK_WORKER_DIR": str(directory / name), "SPARK_LOCAL_IP": host, "JDK_JAVA_OPTIONS": _JAVA}
        environment |= {"HOME": str(home_of), "TMPDIR": str(home_of)}
        with (directory / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments, "--host", host, "--webui-port", "0"],
                stdout=output, stderr=output, env=environment, start_new_session=True,
            )  # fmt: skip
        processes.append(process)
        return process

    try:
        start("master", "127.0.0.1", "org.apache.spark.deploy.master.Master", "--port", "0")
        master = _found(directory / "master.log", r"Starting Spark master at (spark://\S+)")
        # Workers on hosts of their own: Spark runs no copy of a task on the host that has the task already.
        workers = [
            start(name, host, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", master)
            for name, host in (("first", "127.0.0.1"), ("second", "127.0.0.2"))
        ]
        for name in ("first", "second"):
            _found(directory / f"{name}.log", r"(Successfully registered) with master")
        yield Cluster(master, [directory / f"home of {name}" for name in ("first", "second")], workers)
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _found(path: Path, pattern: str) -> str:
    """What a log file says, as soon as it says it."""
    until = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < until:
        found = re.search(pattern, path.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{path.name} did not come up:\n{path.read_text(errors='replace')[-2000:]}")
