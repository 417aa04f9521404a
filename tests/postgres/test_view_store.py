"""The view store on PostgreSQL when drivers and servers are killed, and when the answer to a commit is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.engine.opening import delete_state, open_store
from headwater.engine.postgres import database as database_module
from headwater.engine.postgres.address import parse_address
from headwater.engine.reading import Reader
from headwater.engine.relational.store import RelationalViewStore
from headwater.engine.runs import forget_open_runs
from headwater.engine.subscription import Subscription
from headwater.errors import Determinate, Indeterminate, StoreBusy, StoreOutdated, StoreUnavailable, UsageError
from tests.postgres.servers import Server
from tests.postgres.store_line import StoreLine
from tests.unit.engine.samples import Driver, at, zset

KILLS = int(os.environ.get("HEADWATER_STORE_KILLS", "6"))
SEED = int(os.environ.get("HEADWATER_SEED", "7"))
ROW = zset((1, 1, "a", 1))


@pytest.fixture
def address(server: Server, database: str, tmp_path: Path) -> Iterator[str]:
    forget_open_runs()
    yield f"{server.url(database)}&schema=shop&state={tmp_path / 'runs'}"
    forget_open_runs()


@pytest.fixture
def line(server: Server, tmp_path: Path) -> Iterator[StoreLine]:
    made = StoreLine(tmp_path / "line", server.data)
    yield made
    made.close()


@pytest.fixture
def through(line: StoreLine, database: str, tmp_path: Path) -> str:
    """The same store through the line."""
    return f"postgresql://postgres@/{database}?host={tmp_path / 'line'}&schema=shop&state={tmp_path / 'runs'}"


def keys(reader: Reader) -> list[int]:
    return sorted(row["key"] for row in reader.read(["v"]).tables["v"].to_pylist())


def batches(address: str) -> int:
    with open_store(address, create=False) as store:
        current = store.current()
    return 0 if current is None else current.batch


def test_a_killed_driver_leaves_whole_batches(address: str, tmp_path: Path) -> None:
    chance, known = random.Random(SEED), 0
    for _ in range(KILLS):
        victim = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.store_victim", address], stdout=subprocess.PIPE, text=True
        )
        assert victim.stdout is not None
        wanted = known + chance.randint(1, 6)
        said = [""]
        while not said[-1].startswith(f"begins {wanted + 1}"):
            said.append(victim.stdout.readline().strip())
            assert said[-1], "the driver ended by itself"
        time.sleep(chance.random() * 0.02)
        victim.kill()
        said += victim.stdout.read().split("\n")
        victim.wait()
        victim.stdout.close()
        has = max(int(each.split()[1]) for each in said if each.startswith("has"))
        begun = max(int(each.split()[1]) for each in said if each.startswith("begins"))
        known = batches(address)
        assert has <= known <= begun
        with Reader(address) as reader, open_store(address) as store:
            assert keys(reader) == list(range(1, known + 1))
            assert reader.position() == at(known)
            store.take_over()
            assert batches(address) == known, "what a killed driver left open was committed later"
    assert known >= KILLS


def test_a_killed_server_loses_no_batch_that_was_acknowledged(address: str, server: Server) -> None:
    chance, stop = random.Random(SEED), threading.Event()

    def kill() -> None:
        for _ in range(KILLS):
            time.sleep(0.2 + chance.random() * 0.3)
            server.kill()
            time.sleep(0.1)
            server.start()
        stop.set()

    killer = threading.Thread(target=kill)
    killer.start()
    acknowledged = failures = 0
    seen: set[int] = set()
    driver: Driver | None = None
    with Subscription(address, "v") as subscription:
        while not stop.is_set():
            try:
                driver = driver or Driver(address)
                assert driver.batch >= acknowledged
                number = driver.batch + 1
                driver.publish({"v": zset((number, number, "a", 1))})
                acknowledged = number
                while (changes := subscription.poll()) is not None:
                    seen |= set(changes.rows["key"].to_pylist())
            except (Determinate, Indeterminate):
                failures += 1
                if driver is not None:
                    driver.close()
                driver = None
                time.sleep(0.05)
        killer.join()
        while (changes := subscription.poll()) is not None:
            seen |= set(changes.rows["key"].to_pylist())
    if driver is not None:
        driver.close()
    assert failures
    last = batches(address)
    assert last >= acknowledged > KILLS
    with Reader(address) as reader:
        assert keys(reader) == list(range(1, last + 1))
    assert seen == set(range(1, last + 1))


def test_a_commit_whose_answer_is_lost_is_looked_up(through: str, line: StoreLine) -> None:
    driver = Driver(through)
    driver.publish({"v": ROW})
    line.mode = "lose answer"
    driver.publish({"v": zset((2, 2, "b", 1))})
    assert line.lost == 1
    with Reader(through) as reader:
        assert keys(reader) == [1, 2]
    driver.publish({"v": zset((3, 3, "c", 1))})
    driver.close()


def test_a_commit_that_did_not_arrive_has_not_happened(through: str, line: StoreLine) -> None:
    driver = Driver(through)
    driver.publish({"v": ROW})
    line.mode = "lose request"
    with pytest.raises(StoreUnavailable):
        driver.publish({"v": zset((2, 2, "b", 1))})
    assert (line.lost, batches(through)) == (1, 1)
    driver.close()


def test_a_commit_whose_number_a_crash_took_away_has_not_happened(address: str) -> None:
    driver = Driver(address)
    driver.publish({"v": ROW})
    assert isinstance(driver.store, RelationalViewStore)
    tables = driver.store._database
    assert isinstance(tables, database_module.PostgresDatabase)
    with tables.write() as tx:
        tx.execute("UPDATE pipeline SET epoch = epoch")
        ((number, version),) = tx.execute("SELECT pg_current_xact_id()::text, version FROM pipeline").fetchall()
    assert tables._status(number, version + 1) == "committed"
    # After a crash another transaction may get the number, and no number at all may be as high.
    assert tables._status(number, version + 2) == "aborted"
    assert tables._status(str(int(number) + 1_000_000), 0) == "aborted"
    driver.close()


def test_a_commit_that_nobody_can_ask_about_is_indeterminate(
    through: str, line: StoreLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "ASK_SECONDS_MAX", 0.3)
    driver = Driver(through)
    driver.publish({"v": ROW})
    line.mode, line.stays_closed = "lose answer", True
    with pytest.raises(Indeterminate, match="whether the batch was published"):
        driver.publish({"v": zset((2, 2, "b", 1))})
    with pytest.raises(StoreUnavailable, match="unavailable"):
        batches(through)
    line.mode = "open"
    assert batches(through) == 2
    driver.close()


def test_a_writer_waits_its_turn_whatever_the_limits_of_its_role(address: str, server: Server, database: str) -> None:
    with server.connect(database) as other:
        other.execute(f"ALTER ROLE postgres IN DATABASE {database} SET lock_timeout = '10ms'")
        driver = Driver(address)
        other.execute("BEGIN")
        other.execute("SELECT * FROM shop.pipeline FOR UPDATE")
        # Ours has its own limit, which is longer than the test waits.
        done = threading.Event()

        def publish() -> None:
            driver.publish({"v": ROW})
            done.set()

        waiting = threading.Thread(target=publish)
        waiting.start()
        assert not done.wait(0.5)
        other.execute("ROLLBACK")
        assert done.wait(20)
        waiting.join()
    driver.close()


def test_who_waits_too_long_for_another_writer_is_told(
    address: str, server: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwater.engine.postgres import connections as connections_module

    monkeypatch.setitem(connections_module._SETTINGS, "lock_timeout", "100ms")
    driver = Driver(address)
    with server.connect(database) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM shop.pipeline FOR UPDATE")
        with pytest.raises(StoreBusy):
            driver.publish({"v": ROW})
    driver.close()


def test_followers_wake_up_at_once(address: str) -> None:
    driver = Driver(address)
    driver.publish({"v": ROW})
    with Subscription(address, "v") as subscription:
        assert subscription.poll() is not None
        ticket = driver.store.ticket()
        began = time.monotonic()
        thread = threading.Timer(0.2, lambda: driver.publish({"v": zset((2, 2, "b", 1))}))
        thread.start()
        driver.store.wait(ticket, 30)
        # Without a message it would look after a second.
        assert time.monotonic() - began < 0.9
        assert subscription.poll() is not None
        thread.join()
    driver.close()


def test_connections_are_shared_and_closed(address: str, server: Server, database: str) -> None:
    def count() -> int:
        with server.connect(database) as asking:
            row = asking.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headwater shop'"
            ).fetchone()
        assert row is not None
        return int(row[0])

    driver = Driver(address)
    driver.publish({"v": ROW})
    subscriptions = [Subscription(address, "v") for _ in range(10)]
    for subscription in subscriptions:
        assert subscription.poll() is not None
    # One for transactions, one that listens.
    assert count() == 2
    for subscription in subscriptions:
        subscription.close()
    driver.close()
    deadline = time.monotonic() + 10
    while count() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert count() == 0


def test_several_applications_share_a_database(server: Server, database: str, tmp_path: Path) -> None:
    first, second = (f"{server.url(database)}&schema={name}&state={tmp_path / name}" for name in ("one", "two"))
    for number, address in enumerate((first, second), 1):
        driver = Driver(address)
        driver.publish({"v": zset((number, number, "a", 1))})
        driver.close()
    for number, address in enumerate((first, second), 1):
        with Reader(address) as reader:
            assert keys(reader) == [number]
    delete_state(first)
    assert (batches(first), batches(second)) == (0, 1)


def test_a_store_of_another_format_is_refused_and_can_be_deleted(
    address: str, server: Server, database: str, tmp_path: Path
) -> None:
    driver = Driver(address)
    driver.publish({"v": ROW})
    driver.close()
    with server.connect(database) as other:
        other.execute("UPDATE shop.pipeline SET format = 1")
    with pytest.raises(StoreOutdated):
        open_store(address)
    delete_state(address)
    assert (batches(address), list((tmp_path / "runs").iterdir())) == (0, [])


def test_an_address_shows_no_password() -> None:
    address = parse_address("postgresql://shop:very-secret@host:5433/db?sslmode=require&schema=s&state=/tmp/x")
    assert "very-secret" not in f"{address} {address!r}"
    assert str(address) == "postgresql://host:5433/db?schema=s"
    assert "sslmode=require" in address.conninfo
    for wrong in (
        "postgresql://host/db",
        "postgresql://host/db?schema=s",
        "postgresql://h/d?schema=s&state=x&nosuch=1",
    ):
        with pytest.raises(UsageError):
            parse_address(wrong)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    address = f"postgresql://postgres@/db?host={tmp_path}&schema=shop&state={tmp_path}"
    with pytest.raises(StoreUnavailable) as caught:
        open_store(address)
    assert "schema=shop" in caught.value.address
    assert caught.value.hint
