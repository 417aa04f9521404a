"""The demonstration: a live stream of orders, a writer that is killed, and proof that nothing acknowledged is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headwater.log.embedded import EmbeddedLog, open_log
from headwater.model.record import Record

COUNTRIES = ("AT", "BR", "DE", "IN", "JP", "KE", "PT", "US")
ORDERS_SHOWN = 8
FIRST_ACT_SECONDS = 5.0
SECOND_ACT_SECONDS = 3.0


class Acknowledged:
    """What the writer was told is durable: the orders' numbers, as the writer says them on its standard output."""

    def __init__(self, writer: subprocess.Popen[str]) -> None:
        self.writer = writer
        self.orders: set[int] = set()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """Ends the writer as a power switch would, and hears out what it said before."""
        self.writer.send_signal(signal.SIGKILL)
        self.writer.wait()
        self._thread.join()

    def _listen(self) -> None:
        assert self.writer.stdout is not None
        for line in self.writer.stdout:
            # A line cut off by the kill was never said.
            if line.endswith("\n"):
                first, end = line.split()
                self.orders.update(range(int(first), int(end)))


class Scene:
    """What the live picture shows: the newest orders, totals per country, and how fresh they are."""

    def __init__(self) -> None:
        self.newest: deque[Record] = deque(maxlen=ORDERS_SHOWN)
        self.count = 0
        self.revenue: dict[str, Decimal] = dict.fromkeys(COUNTRIES, Decimal(0))
        self.delay = 0.0

    def note(self, record: Record) -> None:
        assert record.value is not None
        self.newest.appendleft(record)
        self.count += 1
        self.revenue[str(record.value["country"])] += Decimal(str(record.value["amount"]))
        self.delay = (datetime.now(UTC) - record.at).total_seconds() * 1000

    def __rich__(self) -> Group:
        orders = Table(title="orders, as they are committed", expand=True, title_justify="left")
        for name in ("partition", "offset", "position", "order", "country", "amount"):
            orders.add_column(name, justify="right")
        for record in self.newest:
            value = record.value or {}
            cells = (record.partition, record.offset, record.position, value["id"], value["country"], value["amount"])
            orders.add_row(*(str(cell) for cell in cells))
        largest = max(self.revenue.values()) or Decimal(1)
        totals = Table(title="revenue by country", expand=True, title_justify="left", show_header=False)
        for country, amount in self.revenue.items():
            totals.add_row(country, f"{amount:,.2f}", "█" * int(30 * amount / largest))
        footer = Text(f"{self.count:,} orders so far; the newest was seen {self.delay:.1f} ms after its commit")
        return Group(orders, totals, footer)


def main() -> int:
    """Runs the demonstration in a temporary folder, and removes it afterwards."""
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="headwater-demo-") as folder:
            return 0 if show(console, Path(folder) / "log") else 1
    except KeyboardInterrupt:
        console.print("\nStopped. Nothing is left behind.")
        return 130


def show(console: Console, directory: Path) -> bool:
    """The whole demonstration; whether everything held."""
    console.print(Panel("headwater: one durable, replayable log. No server: a directory is a log.", expand=False))
    with open_log(directory) as log:
        log.create(
            "orders", "id bigint, country string, amount decimal(12,2), at timestamp", key="id", partitions=4,
            event_time="at",
        )  # fmt: skip
        log.create("payments", "order_id bigint, amount decimal(12,2)", partitions=2)
        console.print("\n[bold]1.[/] A writer process appends orders and their payments, a commit for both topics.")
        console.print("   This process follows the log live:\n")
        scene = Scene()
        orders = log.read("orders", follow=True, patience=timedelta(seconds=10))
        with writing(directory) as first:
            follow(orders, scene, FIRST_ACT_SECONDS, console)
            console.print(f"\n[bold]2.[/] kill -9 {first.writer.pid}: the writer dies in the middle of an append.")
            first.kill()
        held = prove(console, log, first.orders)
        console.print("\n[bold]3.[/] A new writer takes over under the same name and goes on where the log is:\n")
        with writing(directory) as second:
            follow(orders, scene, SECOND_ACT_SECONDS, console)
            second.kill()
        held &= prove(console, log, first.orders | second.orders)
        log.seal("orders")
        damage = list(log.check())
        console.print(f"\n[bold]4.[/] Every checksum of the log is read again: {len(damage)} problems.")
        files, rows = log.files("orders"), log.table("orders").num_rows
        console.print(f"   The topic is {len(files)} plain Parquet files now, and a table of {rows:,} rows.")
    console.print("\nNext: README.md, then `.venv/bin/headwater log --help`. Nothing is left behind.")
    return held and not damage


def follow(orders: Iterator[Record], scene: Scene, seconds: float, console: Console) -> None:
    """Shows the orders live for a while."""
    until = time.monotonic() + seconds
    with Live(scene, console=console, refresh_per_second=8):
        for record in orders:
            scene.note(record)
            if time.monotonic() > until:
                break
    console.print()


def prove(console: Console, log: EmbeddedLog, acknowledged: set[int]) -> bool:
    """Compares the log with what writers were told, and both topics with each other."""
    position = log.position()
    orders = log.scan("orders", end=position, columns=["id", "amount"])
    payments = log.scan("payments", end=position, columns=["order_id", "amount"])
    found = orders["id"].to_pylist()
    lost, twice = acknowledged - set(found), len(found) - len(set(found))
    torn = _total(orders) != _total(payments) or set(found) != set(payments["order_id"].to_pylist())
    result = Table(show_header=False)
    result.add_row("orders acknowledged to writers", f"{len(acknowledged):,}")
    result.add_row("orders in the log", f"{len(found):,}")
    result.add_row("acknowledged and lost", str(len(lost)))
    result.add_row("written twice", str(twice))
    result.add_row("orders without their payment", "some" if torn else "0")
    console.print(result)
    held = not lost and not twice and not torn
    console.print("   [green]ok[/]: nothing is lost" if held else "   [red]FAILED[/]: this is a bug, please report it")
    return held


@contextmanager
def writing(directory: Path) -> Iterator[Acknowledged]:
    """A writer in a process of its own; it is gone when the block ends, however it ends."""
    command = [sys.executable, "-m", "headwater.cli.demo", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            yield Acknowledged(writer)
        finally:
            if writer.poll() is None:
                writer.kill()


def write_orders(directory: str) -> None:
    """The writer: orders and payments in one commit each, until it is killed."""
    with open_log(directory, create=False, upkeep=False) as log:
        producer = log.producer(name="shop")
        last = log.scan("orders", columns=["id"])
        order = (pc.max(last["id"]).as_py() or 0) + 1
        sequence = producer.next_sequence()
        chance = random.Random()  # noqa: S311 (orders, not secrets)
        while True:
            size = chance.randint(1, 20)
            amounts = [Decimal(chance.randint(100, 20_000)) / 100 for _ in range(size)]
            numbers = range(order, order + size)
            pairs = list(zip(numbers, amounts, strict=True))
            now = datetime.now(UTC)
            with log.commit(producer=producer, sequence=sequence) as commit:
                commit.append(
                    "orders",
                    [{"id": n, "country": chance.choice(COUNTRIES), "amount": a, "at": now} for n, a in pairs],
                )
                commit.append("payments", [{"order_id": n, "amount": a} for n, a in pairs])
            os.write(1, f"{order} {order + size}\n".encode())
            order, sequence = order + size, sequence + 1
            time.sleep(chance.uniform(0.0, 0.02))


def _total(table: pa.Table) -> Decimal:
    total = pc.sum(table["amount"]).as_py()
    return Decimal(total or 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_orders(sys.argv[1])
    else:
        sys.exit(main())
