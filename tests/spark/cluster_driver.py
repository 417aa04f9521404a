"""Runs the shop's views on a cluster, and says after every batch what they are, in a separate process."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from tests.spark.test_pipeline import shop, trade


def main(master: str, directory: str) -> None:
    with shop(Path(directory), master=master, one_task_rows_max=0) as app:
        dice = random.Random(11)
        for number in range(8):
            trade(app, dice, 4)
            app.catch_up()
            equal = all(app.verify(view).equal for view in app.views)
            print(f"batch {number} {'equal' if equal else 'different'}", flush=True)
            sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
