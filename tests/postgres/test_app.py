"""An application with a database: its topics in SQL, and the command line around it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

import headwater as hw
from headwater.cli.application import app as commands
from headwater.connectors.postgres.source import PostgresSource
from headwater.engine.running import Runner
from headwater.errors import UsageError
from headwater.log.port import Log
from tests.postgres.oracle import wait_for
from tests.postgres.servers import Server

Source = psycopg.Connection[Any]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def shop(source: Source) -> Source:
    source.execute("CREATE TABLE customers (id int8 PRIMARY KEY, name text)")
    source.execute("CREATE TABLE orders (id int8 PRIMARY KEY, customer_id int8, amount numeric(10,2))")
    source.execute("INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob')")
    source.execute("INSERT INTO orders VALUES (1, 1, 10), (2, 1, 5), (3, 2, 7)")
    return source


@pytest.mark.usefixtures("spark")
def test_topics_with_a_dot_in_views(
    spark: SparkSession, shop: Source, server: Server, database: str, tmp_path: Path
) -> None:
    with hw.App(database, log=tmp_path / "log") as app:
        app.postgres(server.url(database), tables=["orders", "customers"], heartbeat=timedelta(seconds=0.2))
        app.view(
            "revenue",
            f"SELECT c.name, sum(o.amount) AS total FROM {database}.orders o JOIN {database}.customers c "
            "ON c.id = o.customer_id GROUP BY c.name",
        )
        app.view(
            "big",
            f"SELECT orders.id FROM {database}.orders "
            f"WHERE orders.amount > (SELECT avg(amount) FROM {database}.orders)",
        )
        with Runner(app.sources.values()) as running:
            running.wait_until_ready(lambda: False)
            app.catch_up()
            assert rows(app, "revenue") == [("Ann", 15), ("Bob", 7)]
            assert rows(app, "big") == [(1,)]
            with shop.transaction():
                shop.execute("UPDATE orders SET amount = 20 WHERE id = 3")
                shop.execute("DELETE FROM orders WHERE id = 1")
            wait_for(lambda: rows(app, "revenue", fresh=True) == [("Ann", 5), ("Bob", 20)])
        assert app.verify("revenue").equal
        assert app.verify("big").equal


@pytest.mark.usefixtures("spark")
def test_columns_that_a_view_does_not_use(shop: Source, server: Server, database: str, tmp_path: Path) -> None:
    """They come and go, and the view is neither wrong nor computed again."""
    shop.execute("ALTER TABLE orders ADD COLUMN note text DEFAULT 'n'")
    with hw.App(database, log=tmp_path / "log") as app:
        app.postgres(server.url(database), tables=["orders"], heartbeat=timedelta(seconds=0.2))
        app.view("totals", f"SELECT customer_id, sum(amount) AS total FROM {database}.orders GROUP BY customer_id")
        with Runner(app.sources.values()) as running:
            running.wait_until_ready(lambda: False)
            app.catch_up()
            assert rows(app, "totals") == [(1, 15), (2, 7)]
            shop.execute("ALTER TABLE orders DROP COLUMN note; INSERT INTO orders VALUES (4, 2, 1)")
            wait_for(lambda: rows(app, "totals", fresh=True) == [(1, 15), (2, 8)])
            shop.execute("ALTER TABLE orders ADD COLUMN more int4 DEFAULT 5; UPDATE orders SET amount = 2 WHERE id = 4")
            wait_for(lambda: rows(app, "totals", fresh=True) == [(1, 15), (2, 9)])
            running.check()
        assert app.verify("totals").equal
        assert app.log.topic(f"{database}.orders").schema.names == ["id", "customer_id", "amount", "note", "more"]


def rows(app: hw.App, view: str, *, fresh: bool = False) -> list[tuple[Any, ...]]:
    if fresh:
        app.catch_up()
    return sorted(tuple(row.values()) for row in app.read(view).to_pylist())


class Shell:
    """The command line over an application file. What keeps running is a process; what only asks is a call."""

    def __init__(self, directory: Path, server: Server, database: str) -> None:
        self.directory = directory
        self._file = directory / "app.py"
        self._file.write_text(
            "import headwater as hw\nfrom datetime import timedelta\n"
            f"app = hw.App('{database}', log='data')\n"
            f"url = '{server.url(database)}'\n"
            "app.postgres(url, tables=['orders', 'customers'], heartbeat=timedelta(seconds=0.3))\n"
        )

    def __call__(self, command: str, *arguments: str, code: int = 0) -> str:
        ran = self._run(command, *arguments)
        assert ran.exit_code == code, ran.output
        return ran.output

    def said(self, command: str, *arguments: str) -> str:
        """What a command prints, whatever comes of it."""
        return self._run(command, *arguments).stdout

    def _run(self, command: str, *arguments: str) -> Result:
        ran = CliRunner().invoke(commands, ["capture", command, str(self._file), *arguments])
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return ran

    @contextmanager
    def capturing(self) -> Iterator[None]:
        process = subprocess.Popen(
            [sys.executable, "-c", "from headwater.cli import main; main()", "capture", "app.py"],
            cwd=self.directory, env=ENV, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=200)
        assert process.returncode == 0, said


ENV = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.timeout(900)
def test_the_command_line(shop: Source, server: Server, database: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path, server, database)
    assert "can be captured: 2 tables" in shell("check")
    with shell.capturing():
        wait_for(lambda: " streaming, slot" in shell.said("status"))
        shop.execute("INSERT INTO orders SELECT g, 1, 1 FROM generate_series(10, 500) g")
        wait_for(lambda: "orders  equal" in shell.said("audit"))
        with hw.open(tmp_path / "data") as log:
            topic = f"{database}.orders"
            log.delete(topic, [{"id": 20}])
            log.append(
                topic, [{"id": 30, "customer_id": 1, "amount": "99"}, {"id": 9999, "customer_id": 1, "amount": "1"}]
            )
        found = [
            json.loads(line)
            for line in shell("audit", "--json", "--repair", code=1).splitlines()
            if line.startswith("{")
        ]
        orders = next(each for each in found if each["table"] == "public.orders")
        assert (orders["missing"], orders["different"], orders["extra"]) == ([[20]], [[30]], [[9999]])
        wait_for(lambda: "orders  equal" in shell.said("audit"))
        shell("snapshot", "orders")
        shell("pause")
        active = "SELECT count(*) FROM pg_replication_slots WHERE database = %s AND active"
        wait_for(lambda: shop.execute(active, (database,)).fetchone() == (0,))
        shop.execute("INSERT INTO orders VALUES (1000, 1, 1)")
        time.sleep(1)
        with hw.open(tmp_path / "data") as log:
            assert 1000 not in log.table(f"{database}.orders")["id"].to_pylist()
        shell("resume")
        wait_for(lambda: "orders  equal" in shell.said("audit"))
    assert "no process captures it" in shell("status", code=3)
    shell("drop", "--yes")
    assert shop.execute("SELECT count(*) FROM pg_replication_slots WHERE database = %s", (database,)).fetchone() == (0,)
    shop.execute("DELETE FROM orders WHERE id = 400")
    with shell.capturing():  # starts over, and deletes what went meanwhile
        wait_for(lambda: "orders  equal" in shell.said("audit"))


def test_passwords_are_never_shown(log: Log, tmp_path: Path) -> None:
    with hw.App("shop", log=log) as app:
        source = app.postgres("postgresql://ann:sEcret@nowhere.invalid:1/db", tables=["a"])
        assert isinstance(source, PostgresSource)
        assert "sEcret" not in repr(source) + repr(source.options) + source.address
        with pytest.raises(hw.HeadwaterError) as raised:
            source.status()
        assert "sEcret" not in str(raised.value) + repr(raised.value) + str(raised.value.__cause__)
        with pytest.raises(UsageError) as misread:
            app.postgres("postgresql://ann:sEcret@[bad", tables=["a"], name="other")
        assert "sEcret" not in str(misread.value) + str(misread.value.__cause__)
        (tmp_path / "password").write_text("sEcret\n")
        other = app.postgres(
            "postgresql://ann@nowhere.invalid/db", tables=["a"], name="third", password_file=tmp_path / "password"
        )
        assert isinstance(other, PostgresSource)
        assert "sEcret" in other.options.address.conninfo()
        assert "sEcret" not in repr(other.options)
