"""Who the peers are, and how each gets an environment of its own, kept for the next run in the user's cache folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.engine.peers.answering import sentence

HERE = Path(__file__).parent
JARS_VARIABLE = "HEADWATER_BENCH_JARS"
PYTHON = "3.11"
"""All peers have packages for it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A system with the module that runs a line in it. `rows_max` is for one that would take hours."""

    name: str
    title: str
    module: str
    requirements: str
    jars: str = ""
    rows_max: int | None = None
    has_latency: bool = True


PEERS = {
    peer.name: peer
    for peer in (
        Peer("spark", "Spark, native", "bench.engine.peers.in_spark", "requirements-spark.txt"),
        Peer(
            "spark_state", "Spark, transformWithState", "bench.engine.peers.in_spark_state",
            "requirements-spark.txt", rows_max=100_000, has_latency=False,
        ),
        Peer("flink", "Flink SQL", "bench.engine.peers.in_flink", "requirements-flink.txt", jars="jars-flink.txt"),
        Peer("pathway", "Pathway", "bench.engine.peers.in_pathway", "requirements-pathway.txt"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a peer runs."""

    python: Path
    variables: Mapping[str, str]


class NotInstalled(Exception):
    """A peer cannot take part; the message says why."""


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater-bench"


def install(peer: Peer, messages: Console) -> Environment:
    """The peer's environment, made if there is none with these versions."""
    wanted = (HERE / peer.requirements).read_text() + ((HERE / peer.jars).read_text() if peer.jars else "")
    folder = cache_folder() / _folder_name(peer.requirements)
    python, jars, ready = folder / "bin" / "python", folder / "jars", folder / "ready"
    if not ready.exists() or ready.read_text() != wanted:
        messages.print(f"{peer.title}: installing {', '.join(_lines(peer.requirements))} (once) ...")
        shutil.rmtree(folder, ignore_errors=True)
        uv = [sys.executable, "-m", "uv"]
        _command([*uv, "venv", "--quiet", "--python", PYTHON, str(folder)])
        _command(
            [*uv, "pip", "install", "--quiet", "--python", str(python), "--requirement", str(HERE / peer.requirements)]
        )
        for jar in _lines(peer.jars) if peer.jars else ():
            messages.print(f"{peer.title}: fetching {jar} (once) ...")
            _command(
                ["mvn", "--quiet", "--batch-mode", "dependency:copy", f"-Dartifact={jar}", f"-DoutputDirectory={jars}"]
            )
        # Written last: an installation that was stopped half way is recreated.
        ready.write_text(wanted)
    return Environment(python, {JARS_VARIABLE: str(jars)} if peer.jars else {})


def _lines(file: str) -> list[str]:
    """What a file asks for, without its comments."""
    lines = (line.partition("#")[0].strip() for line in (HERE / file).read_text().splitlines())
    return [line for line in lines if line]


def _folder_name(requirements: str) -> str:
    """The first package and its version; peers with the same packages share an environment."""
    return _lines(requirements)[0].replace("==", "-")


def _command(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NotInstalled(f"{command[0]} was not found") from error
    if done.returncode:
        said = sentence(re.sub(r"\s+", " ", done.stderr or done.stdout).strip())
        raise NotInstalled(f"not installed: {said or f'{command[0]} ended with code {done.returncode}'}")
