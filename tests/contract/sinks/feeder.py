"""A feed of the view `v` to a target in a process of its own, which can be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from headwater.connectors.registry import target_class
from headwater.engine.parts import Report, Stop
from headwater.engine.sinks.delivering import TargetSink
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.target import Assignment
from headwater.log.opening import open_log
from tests.webhooks.sending import QUICK

ROOT = Path(__file__).parents[3]


class Feeder:
    """The process; the target is an instance of the class `kind` of `hw.sinks`, made with `arguments`."""

    def __init__(self, directory: Path, log: Path, kind: str, **arguments: Any) -> None:
        self._said = directory / "said"
        self._command = [sys.executable, "-m", "tests.contract.sinks.feeder"]
        self._command += [str(directory), str(log), kind, json.dumps(arguments)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=said, stderr=said)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def said(self) -> str:
        """What all of its processes said."""
        return self._said.read_text()


class _Printed(Report):
    def say(self, text: str) -> None:
        print(text, flush=True)

    def warn(self, text: str) -> None:
        print(text, flush=True)


def main() -> None:
    directory, log_directory, kind, arguments = sys.argv[1:]
    made: Any = target_class(kind)
    with open_log(log_directory) as log:
        place = Path(directory)
        assignment = Assignment(place.name, "out", "v", ("key",))
        sink = TargetSink(made(**json.loads(arguments)), assignment, place, log, "out.dead_letters")
        Feed(place, "out", "v", sink, "content", QUICK).run(Stop(), _Printed())


if __name__ == "__main__":
    main()
