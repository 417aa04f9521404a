"""Makes the class archive, by a short run of Spark whose Java writes down the classes that it has loaded as it ends.

`python -m headwater.spark.archiving` makes it, unless it is there or another process is making it. With `--background`
it takes the time that others leave, and ends when its standard input does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from pyspark import SparkContext

from headwater.engine.pipeline import Pipeline
from headwater.engine.sparkplace import SparkPlace
from headwater.log.opening import open_log
from headwater.spark.archive import BACKGROUND, QUIET, find_archive, place
from headwater.spark.runtime import Runtime
from headwater.spark.session import start_session

NICENESS = 19
UNUSED_SECONDS_MAX = 30 * 24 * 3600.0
_TABLES = {
    "customers": "id bigint, country string, since timestamp",
    "orders": "id bigint, customer bigint, amount decimal(12,2), quantity int, note string, day date",
}
_VIEWS = {
    "totals": "SELECT customer, count(*) AS n, sum(amount) AS total, max(note) AS note FROM orders GROUP BY customer",
    "sold": """SELECT o.id, o.amount * o.quantity AS amount, upper(o.note) AS note, c.country
               FROM orders o LEFT JOIN customers c ON c.id = o.customer WHERE o.quantity > 0""",
    "countries": """SELECT country, count(DISTINCT note) AS notes, avg(amount) AS mean, stddev(amount) AS deviation
                    FROM sold GROUP BY country HAVING count(*) > 0""",
    "latest": """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY customer ORDER BY day DESC, id) AS place
                 FROM orders) WHERE place <= 3""",
    "ranks": "SELECT id, rank() OVER (PARTITION BY customer ORDER BY amount) AS place FROM orders",
    "buyers": """SELECT date_trunc('MONTH', since) AS month, count(*) AS n FROM customers
                 WHERE id IN (SELECT customer FROM orders WHERE amount > 10) GROUP BY 1""",
    "largest": "SELECT id, CASE WHEN amount > 50 THEN 1 ELSE 0 END AS kind FROM orders ORDER BY amount DESC LIMIT 5",
}
"""Kinds of views that applications have: what Java loads for them is what it is going to load."""


def main() -> None:
    prefix = place()
    if prefix is None:
        return
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with prefix.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if find_archive() is None:
            _remove_old(prefix.parent)
            made, work = prefix.with_suffix(".made"), prefix.with_suffix(".work")
            # A process that was killed has left them.
            made.unlink(missing_ok=True)
            shutil.rmtree(work, ignore_errors=True)
            _run(made, work)
            shutil.rmtree(work, ignore_errors=True)
            _publish(made, prefix)


def _run(made: Path, work: Path) -> None:
    """Runs some views, so that Java writes the classes to a file; returns when it has."""
    options = f'"-XX:ArchiveClassesAtExit={made}" {QUIET}'
    session = start_session("local[2]", java=options, spark__driver__memory="1g")
    gateway = SparkContext._gateway  # noqa: SLF001
    assert gateway is not None
    with open_log(work / "log") as log:
        for topic, schema in _TABLES.items():
            log.create(topic, schema, key="id")
        program = Runtime(SparkPlace("local[2]"), log, _VIEWS, (), lambda _: None).program
        pipeline = Pipeline(log, work / "views", program, policies={}, one_task_rows_max=10)
        for number in range(4):
            log.append("customers", [{"id": number, "country": "DE", "since": "2026-01-01T00:00:00Z"}])
            order = {"customer": number, "amount": "9.50", "quantity": 1, "note": "new", "day": "2026-01-01"}
            # The last batch is one for several tasks.
            log.append("orders", [{"id": one, **order} for one in range(number, number + (20 if number == 3 else 2))])
            for _ in pipeline.catch_up():
                pass
        pipeline.close()
        session.stop()
        gateway.shutdown()
        # It ends when its standard input does.
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _publish(made: Path, prefix: Path) -> None:
    # If Java has made none, an empty one keeps others from trying again.
    made.touch()
    with made.open("rb") as written:
        os.fsync(written.fileno())
    made.replace(prefix.parent / f"{prefix.name}-{made.stat().st_size}.jsa")


def _remove_old(directory: Path) -> None:
    for old in directory.glob("classes-*"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > UNUSED_SECONDS_MAX:
                old.unlink()


def _end_with(parent: int) -> None:
    """Ends this process when its standard input does, which its parent holds."""
    with suppress(OSError):
        while os.read(parent, 1):
            pass
    gateway = SparkContext._gateway  # noqa: SLF001
    if gateway is not None:
        # It would write the archive otherwise, which nobody is left to take.
        gateway.proc.kill()
    os._exit(1)


if __name__ == "__main__":
    if BACKGROUND in sys.argv:
        os.nice(NICENESS)
        threading.Thread(target=_end_with, args=(sys.stdin.fileno(),), daemon=True).start()
    main()
