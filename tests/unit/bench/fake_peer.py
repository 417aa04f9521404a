"""A peer that knows nothing: what it answers stands in the place of the query; for tests of how peers are run."""

from __future__ import annotations

import sys
import time

import pyarrow as pa

from bench.engine.peers.answering import Answer, Question, main


def run(question: Question) -> Answer:
    """What it does is in the place of the query."""
    sys.stdout.write("a system says this and that\n")
    match question.sql:
        case "refuse":
            raise ValueError("Windows are not supported.\nSecond line")
        case "sleep":
            time.sleep(60)
        case "crash":
            sys.stderr.write("Killed by the system\n")
            sys.stderr.flush()
            sys.exit(3)
    view = pa.table({"k": [1, 2], "n": [10, 20]})
    return Answer(view, 2.0, 1.0, {"fake": "1.0"}, {"speed": "high"}, "from thin air")


if __name__ == "__main__":
    main(run)
