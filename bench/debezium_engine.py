"""Debezium's engine, from Maven Central, on the same changes: the other product in the same run."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "debezium"
CACHE = Path(tempfile.gettempdir()) / "headwater-bench-debezium"


class Debezium:
    """Built once, in a folder below the temporary one. Needs Java, javac and Maven."""

    def __init__(self) -> None:
        library = CACHE / "lib"
        if not library.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCES / "pom.xml", CACHE)
            command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
            subprocess.run(command, cwd=CACHE, check=True, stdout=subprocess.DEVNULL)
        self._classpath = f"{CACHE}:{library}/*"
        subprocess.run(["javac", "-cp", self._classpath, "-d", str(CACHE), str(SOURCES / "Drain.java")], check=True)

    @staticmethod
    def is_possible() -> bool:
        return all(shutil.which(program) for program in ("mvn", "java", "javac"))

    def start(
        self, host: str, port: int, database: str, slot: str, publication: str, events: int, directory: Path
    ) -> subprocess.Popen[str]:
        directory.mkdir(parents=True)
        arguments = [host, str(port), database, slot, publication, str(events), str(directory)]
        process = subprocess.Popen(
            ["java", "-Xmx1g", "-cp", self._classpath, "Drain", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        return process


def result(process: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
    """What the engine reports at its end."""
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found
