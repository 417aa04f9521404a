"""Keeps the shop's views up to date for ever, and says so after every batch: a process that is made to be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from headwater.engine.pipeline import Progress
from tests.spark.test_pipeline import shop


def say(progress: Progress) -> None:
    print(progress.batch, flush=True)


if __name__ == "__main__":
    with shop(Path(sys.argv[1]), batch_rows_max=5) as app:
        app.run(say)
