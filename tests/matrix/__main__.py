"""Runs the matrix: `make matrix`, or some of it: `make matrix MATRIX_OPTIONS='--only rank'`.

Every case is refused in words, or equals raw Spark after every step. What does not is listed with its SQL, the step and
the difference, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from headwater.spark.session import start_session
from tests.matrix.generating import all_cases, sample
from tests.matrix.report import as_json, counts, markdown
from tests.matrix.running import MASTER, Matrix
from tests.matrix.worlds import WORLDS, build_world

messages = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="PATTERN", action="append", help="cases whose name matches; may be repeated")
    parser.add_argument("--sample", type=int, metavar="N", help="only N cases, spread over all families")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MATRIX_SEED", "1")), help="of the rows")
    parser.add_argument("--together", type=int, default=60, metavar="N", help="views in one application")
    parser.add_argument("--list", action="store_true", help="show the cases, and run none")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write all that was found as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    began = time.monotonic()
    session = start_session(MASTER)
    cases = all_cases(session)
    if options.only:
        cases = [case for case in cases if any(re.search(pattern, case.name) for pattern in options.only)]
    if options.sample:
        cases = sample(cases, options.sample)
    if options.list:
        for case in cases:
            sys.stdout.write(f"{case.name}\t{case.world}\t{case.sql}\n")
        return 0
    messages.print(f"{len(cases)} cases, seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="headwater-matrix-") as folder:
        needed = {case.world for case in cases}
        worlds = {name: build_world(name, Path(folder) / name, options.seed) for name in WORLDS if name in needed}
        matrix = Matrix(session, worlds, lambda text: messages.print(f"{time.monotonic() - began:6.0f} s  {text}"))
        try:
            for _ in matrix.run(cases, together=options.together):
                write(matrix, options, time.monotonic() - began)
        except KeyboardInterrupt:
            messages.print("interrupted")
    text = write(matrix, options, time.monotonic() - began)
    results = matrix.results.values()
    sys.stdout.write(text.partition("## Refused")[0])
    sys.stdout.write(", ".join(f"{name}: {count}" for name, count in counts(results).items()) + "\n")
    return 1 if matrix.findings or any(result.status == "failed" for result in results) else 0


def write(matrix: Matrix, options: argparse.Namespace, seconds: float) -> str:
    """Writes what was found so far to where it was asked for."""
    results = list(matrix.results.values())
    text = markdown(results, matrix.findings, seconds, options.seed)
    if options.report:
        options.report.write_text(text)
    if options.json:
        options.json.write_text(as_json(results))
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
