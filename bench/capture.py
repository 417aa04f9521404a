"""Measures capture of PostgreSQL, and Debezium's engine on the same changes: `python bench/capture.py --help`."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console

from headwater.log.embedded.position import commit_of
from headwater.log.port import Log

sys.path.insert(0, str(Path(__file__).parents[1]))

import headwater as hw
from bench.debezium_engine import Debezium, result
from bench.report import Floor, Line, Report, machine
from headwater.connectors.postgres.address import address_of
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.source import PostgresSource
from headwater.engine.pipeline import Progress
from tests.postgres.servers import Server, chosen_versions

PORT = 54329
PER_TRANSACTION = 4
SCHEMA = """
CREATE TABLE orders (id int8 PRIMARY KEY, customer_id int8, amount numeric(10,2), status text, at timestamptz);
CREATE SEQUENCE numbers;
INSERT INTO orders SELECT -g, g % 1000, g * 0.01, 'new', now() FROM generate_series(1, 10000) g;
ANALYZE orders;
"""
# Two inserts, an update and a delete per transaction: the table keeps growing by one row. They are sent together: the
# time between statements is the client's.
SCRIPT = """\\set a random(1, 10000)
BEGIN\\;
INSERT INTO orders VALUES (nextval('numbers'), :a, :a * 0.01, 'new', now())\\;
INSERT INTO orders VALUES (nextval('numbers'), :a, :a * 0.02, 'new', now())\\;
UPDATE orders SET status = 'paid', amount = amount + 1 WHERE id = -:a\\;
DELETE FROM orders WHERE id = (SELECT currval('numbers'))\\;
COMMIT;
"""
CLIENTS = 8
WARM_UP_SECONDS = 2
PROCEDURE = """
CREATE PROCEDURE load(transactions int, seed int) LANGUAGE plpgsql AS $$
DECLARE a int;
BEGIN
  FOR i IN 1..transactions LOOP
    a := 1 + (i * 7919 + seed * 104729) % 10000;
    INSERT INTO orders VALUES (nextval('numbers'), a, a * 0.01, 'new', now());
    INSERT INTO orders VALUES (nextval('numbers'), a, a * 0.02, 'new', now());
    UPDATE orders SET status = 'paid', amount = 1 WHERE id = -a;
    DELETE FROM orders WHERE id = (SELECT currval('numbers'));
    COMMIT;
  END LOOP;
END $$
"""


class Bench:
    """A server with a fresh database, and what runs against it."""

    def __init__(self, server: Server, database: str, directory: Path, *, debezium: Debezium | None) -> None:
        self.server, self.database, self.directory, self.debezium = server, database, directory, debezium
        self.options = CaptureOptions(
            "shop",
            address_of(server.url(database).replace("?", f"?port={PORT}&")),
            tables=("orders",),
            directory=directory / "capture",
        )
        self.url = server.url(database).replace("?", f"?port={PORT}&")

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True)

    def set_up(self) -> None:
        with self.connect() as connection:
            connection.execute(SCHEMA)
            connection.execute(PROCEDURE)
        with hw.open(self.directory / "log") as log:
            Capture(log, self.options).prepare()
        with self.connect() as connection:
            connection.execute("CREATE PUBLICATION other FOR TABLE orders")
        self.new_slot()

    def load(self, transactions: int, clients: int = 2) -> int:
        """Changes rows as fast as the database can; how many changes."""

        def work(number: int) -> None:
            with self.connect() as connection:
                connection.execute("SET synchronous_commit = off")
                connection.execute(f"CALL load({transactions // clients}, {number})".encode())

        threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return transactions // clients * clients * PER_TRANSACTION

    @contextmanager
    def capturing(self) -> Iterator[None]:
        arguments = [self.url, self.directory / "log", self.directory / "capture", "shop"]
        process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("capture_worker.py"), *map(str, arguments)]
        )
        try:
            self.wait_for_slot(self.options.names.slot)
            yield
        finally:
            process.kill()
            process.wait()

    def new_slot(self, name: str = "other") -> None:
        """A slot that begins now. Debezium's engine leaves one a little behind what it has read."""
        with self.connect() as connection:
            if connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (name,)).fetchone():
                connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))

    def drain(self) -> float:
        """Lets the server send what waits in slot `floor` to nowhere; how many seconds it took."""
        with self.connect() as connection:
            connection.execute("SELECT pg_logical_emit_message(false, 'end', '', true)")
            [(end,)] = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchall()
            options = ["proto_version=2", "publication_names=other", "streaming=on", "messages=true"]
            began = time.perf_counter()
            subprocess.run(
                [
                    str(self.server.binaries / "pg_recvlogical"), "-d", self.url, "-S", "floor", "--start", "--no-loop",
                    "-f", "/dev/null", "--endpos", end, *(part for each in options for part in ("-o", each)),
                ],
                check=True,
            )  # fmt: skip
            seconds = time.perf_counter() - began
            connection.execute("SELECT pg_drop_replication_slot('floor')")
        return seconds

    def start_debezium(self, events: int) -> subprocess.Popen[str]:
        assert self.debezium is not None
        place = self.directory / f"debezium-{time.monotonic_ns()}"
        return self.debezium.start("127.0.0.1", PORT, self.database, "other", "other", events, place)

    def wait_for_slot(self, name: str) -> None:
        """Returns when somebody streams from it."""
        query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
        with self.connect() as connection:
            while not connection.execute(query, (name,)).fetchone():
                time.sleep(0.01)


def backlog(bench: Bench, transactions: int) -> Iterator[Floor | Line]:
    """How fast changes that are waiting in the WAL get into the log."""
    bench.new_slot("floor")
    with hw.open(bench.directory / "log", upkeep=False) as log:
        before = _records(log)
        changes = bench.load(transactions)
        floor = changes / bench.drain()
        yield Floor("the stream to nowhere", floor, "changes/s", note="pg_recvlogical to /dev/null")
        with bench.capturing():
            began = time.perf_counter()
            while _records(log) < before + changes:
                if time.perf_counter() - began > 600:
                    raise TimeoutError(f"{_records(log) - before} of {changes} changes")
                time.sleep(0.01)
            seconds = time.perf_counter() - began
    note = f"{transactions:,} transactions of {PER_TRANSACTION}, from the start of the stream, durable"
    rate = changes / seconds
    yield Line(
        "changes captured from a backlog",
        rate,
        "changes/s",
        goal=50_000,
        floor="the stream to nowhere",
        ratio=rate / floor,
        note=note,
    )
    if bench.debezium is not None:
        found = result(bench.start_debezium(changes), 600)
        rate = found["events"] / found["seconds"]
        yield Line("the same by Debezium's engine", rate, "changes/s", note="from its first batch, into a file")


def _records(log: Log) -> int:
    return sum(end for _, end in log.offsets("shop.orders").values())


def latency(bench: Bench, rate: int, seconds: int) -> Iterator[Line]:
    """From a commit of the database to the log, at a rate; what a follower in another process sees."""
    delays: list[np.ndarray] = []
    stop = threading.Event()
    with hw.open(bench.directory / "log", upkeep=False) as log:

        def follow() -> None:
            for batch in log.batches(
                "shop.orders", start="latest", columns=["_headers"], follow=True, idle_timeout=timedelta(seconds=5)
            ):
                now = datetime.now(UTC).timestamp()
                delays.append(now - committed_at(batch.records["_headers"]))
                if stop.is_set():
                    return

        with bench.capturing():
            # Without the first seconds of a process.
            _pgbench(bench, rate // PER_TRANSACTION, WARM_UP_SECONDS)
            time.sleep(1)
            thread = threading.Thread(target=follow)
            thread.start()
            _pgbench(bench, rate // PER_TRANSACTION, seconds)
            time.sleep(1)
            stop.set()
            thread.join()
    found = np.concatenate(delays) * 1000
    note = f"{len(found) / seconds:,.0f} changes/s arrived"
    goal = 100.0 if rate >= 10_000 else None
    yield Line(f"commit to log at {rate:,} changes/s, p50", float(np.median(found)), "ms", better="less", note=note)
    yield Line(
        f"commit to log at {rate:,} changes/s, p99", float(np.percentile(found, 99)), "ms", goal=goal, better="less"
    )
    if bench.debezium is not None:
        yield from _latency_of_debezium(bench, rate, seconds)


def committed_at(headers: pa.ChunkedArray) -> np.ndarray:
    """When the transactions of records were committed, in seconds since 1970."""
    texts = pc.map_lookup(headers.combine_chunks(), "committed_at", "first")
    moments = pc.strptime(pc.utf8_slice_codeunits(texts, 0, 19), "%Y-%m-%dT%H:%M:%S", "us").cast("int64")
    parts = pc.utf8_slice_codeunits(texts, 20, 26)
    micros = pc.if_else(pc.match_substring_regex(parts, r"^\d{6}$"), parts, "0").cast("int64")
    seconds: np.ndarray = pc.add(moments, micros).to_numpy() / 1e6
    return seconds


def latency_of_view(bench: Bench, rate: int, seconds: int) -> Iterator[Line]:
    """From a commit of the database to a view that shows it, at a rate."""
    published: list[tuple[int, float]] = []

    def note(progress: Progress) -> None:
        published.append((commit_of(progress.position), datetime.now(UTC).timestamp()))

    with hw.App(f"views-{rate}", log=bench.directory / "log") as app:
        app.view("states", "SELECT status, count(*) AS orders, sum(amount) AS amount FROM shop.orders GROUP BY status")
        with bench.capturing():
            app.catch_up()
            start = app.log.position()
            thread = threading.Thread(target=app.run, args=(note,))
            thread.start()
            _pgbench(bench, rate // PER_TRANSACTION, seconds)
            time.sleep(3)
            app.stop()
            thread.join()
            app.catch_up()
        assert app.verify("states").equal
        records = app.log.scan("shop.orders", start=start, columns=["_commit", "_headers"])
    commits, moments = (np.array(each) for each in zip(*published, strict=True))
    shown = np.searchsorted(commits, records["_commit"].to_numpy())
    inside = shown < len(commits)
    found = (moments[shown[inside]] - committed_at(records["_headers"])[inside]) * 1000
    reached = f"{inside.sum() / seconds:,.0f} changes/s, in {len(commits)} batches"
    for name, value in (("p50", np.median(found)), ("p99", np.percentile(found, 99))):
        text = f"commit to view at {rate:,} changes/s, {name}"
        yield Line(text, float(value), "ms", better="less", note=reached if name == "p50" else "")


def _latency_of_debezium(bench: Bench, rate: int, seconds: int) -> Iterator[Line]:
    """The same load once more, with the engine instead of the capture."""
    bench.new_slot()
    # The rate is a goal of pgbench's: a busy server stays below it.
    engine = bench.start_debezium(int(rate * seconds * 0.8))
    bench.wait_for_slot("other")
    time.sleep(WARM_UP_SECONDS)
    _pgbench(bench, rate // PER_TRANSACTION, seconds)
    try:
        said = result(engine, 60)
    except subprocess.TimeoutExpired:
        return
    for percentile in ("p50", "p99"):
        name = f"the same by Debezium's engine at {rate:,}, {percentile}"
        yield Line(name, said[percentile], "ms", better="less", note="without the first half of the changes")


def _pgbench(bench: Bench, rate: int, seconds: int) -> None:
    script = bench.directory / "script.sql"
    script.write_text(SCRIPT)
    command = [
        str(bench.server.binaries / "pgbench"), "-n", "-f", str(script), "-c", str(CLIENTS), "-R", str(rate),
        "-T", str(seconds), "-U", "postgres", "-h", str(bench.server.data), "-p", str(PORT), bench.database,
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)


def snapshot(bench: Bench, rows: int) -> Iterator[Floor | Line]:
    """How fast a table is read for the first time, against what the server needs to write it out."""
    with bench.connect() as connection:
        connection.execute(
            "CREATE TABLE big "
            "(id int8 PRIMARY KEY, customer_id int8, amount numeric(10,2), status text, at timestamptz)"
        )
        connection.execute(
            f"INSERT INTO big SELECT g, g % 1000, g * 0.01, 'new', now() FROM generate_series(1, {rows}) g".encode()
        )
        connection.execute("VACUUM ANALYZE big")
        began = time.perf_counter()
        connection.execute("COPY big TO '/dev/null'")
        floor = rows / (time.perf_counter() - began)
    yield Floor("COPY to nowhere", floor, "rows/s")
    options = CaptureOptions("snap", bench.options.address, tables=("big",), directory=bench.directory / "snap")
    with hw.open(bench.directory / "log2", upkeep=False) as log:
        began = time.perf_counter()
        Capture(log, options).prepare()
        rate = rows / (time.perf_counter() - began)
        assert log.offsets("snap.big") == {0: (0, rows)}
        PostgresSource(log, options).drop()
    yield Line(
        "first snapshot",
        rate,
        "rows/s",
        goal=400_000,
        floor="COPY to nowhere",
        ratio=rate / floor,
        note="set-up included",
    )


def main(
    *,
    quick: Annotated[bool, typer.Option(help="Seconds: shows that it works, not how fast.")] = False,
    debezium: Annotated[bool, typer.Option(help="Also run Debezium's engine; needs Maven and Java.")] = True,
    views: Annotated[bool, typer.Option(help="Also measure how late a view is; needs Java.")] = True,
    json: Annotated[Path | None, typer.Option(help="Also write everything to this file, as JSON.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown.")] = False,
) -> None:
    """Measures capture against a PostgreSQL server of its own, with Debezium's engine on the same changes."""
    console = Console(stderr=True)
    other = Debezium() if debezium and Debezium.is_possible() else None
    floors: list[Floor] = []
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create(chosen_versions()[0], Path(directory))
        server.start(listen_addresses="127.0.0.1", port=str(PORT), fsync="on", max_wal_size="8GB")
        bench = Bench(server, "postgres", Path(directory) / "work", debezium=other)
        bench.directory.mkdir()
        try:
            bench.set_up()
            seconds = 5 if quick else 20
            for found in itertools.chain(
                # Before there is a backlog, which the log continues sorting and sealing for a while.
                latency(bench, 1_000, seconds),
                latency(bench, 10_000, seconds),
                backlog(bench, 2_000 if quick else 150_000),
                *([latency_of_view(bench, 1_000, seconds), latency_of_view(bench, 10_000, seconds)] if views else []),
                snapshot(bench, 50_000 if quick else 5_000_000),
            ):
                console.print(f"{found.name}: {found.value:,.0f} {found.unit} {found.note}")
                (floors if isinstance(found, Floor) else lines).append(found)  # type: ignore[arg-type]
        finally:
            server.stop()
    report = Report(machine(Path(tempfile.gettempdir())), {"PostgreSQL": chosen_versions()[0]}, floors, lines)
    if json is not None:
        json.write_text(report.to_json() + "\n")
    if markdown:
        print(report.to_markdown())
    else:
        report.print(Console())


if __name__ == "__main__":
    typer.run(main)
