"""Runs the bank's views on a Spark cluster, and says after every round what they are, in a separate process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.kafka.bank import bank

ROUNDS = 5


def main(master: str, url: str, state: str, python: str) -> None:
    conf = {"spark.pyspark.python": python, "spark.executor.memory": "512m"}
    where = {"store": os.environ["STORE"], "state": os.environ["STATE"]}
    with bank(url, Path(state), master=master, spark_conf=conf, one_task_rows_max=0, **where) as app:
        for _ in range(ROUNDS):
            sys.stdin.readline()
            app.catch_up()
            equal = all(app.verify(view).equal for view in app.views)
            rows = app.read("balances").to_pylist()
            found = {str(row["account"]): str(row["balance"]) for row in rows if row["balance"]}
            print(json.dumps({"equal": equal, "balances": found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
