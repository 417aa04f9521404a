"""Customers that are made up do the same for the same seed, and nothing that the database would refuse."""

from __future__ import annotations

import sqlite3
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from headwater.demo.generator import Generator, PageView, Transaction
from headwater.demo.history import past
from headwater.demo.tables import insert
from tests.unit.demo.ledger import Ledger, known_of

BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)
Step = tuple[datetime, list[PageView], list[Transaction]]


def generated(seed: int, minutes: int = 20) -> list[Step]:
    """What happens in steps of half a second."""
    generator = Generator(seed, known_of(past(seed, BEGAN)), BEGAN)
    found = []
    for number in range(minutes * 120):
        now = BEGAN + timedelta(seconds=number / 2)
        found.append((now, generator.browse(now), generator.trade(now)))
    return found


def test_a_seed_repeats_itself() -> None:
    assert generated(1, minutes=3) == generated(1, minutes=3)
    assert generated(1, minutes=3) != generated(2, minutes=3)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_row_finds_its_partner(seed: int) -> None:
    ledger = Ledger(past(seed, BEGAN))
    for _, _, transactions in generated(seed):
        ledger.carry_out(transactions)
    statuses = Counter(status for (status,) in ledger.connection.execute("SELECT status FROM orders"))
    assert all(statuses[status] > 10 for status in ("placed", "paid", "shipped", "cancelled")), statuses
    lines = "SELECT sum(quantity * price) FROM order_lines l WHERE l.order_id = o.id"
    assert ledger.connection.execute(f"SELECT id FROM orders o WHERE abs(total - ({lines})) > 0.001").fetchall() == []
    unpaid = "SELECT id FROM orders WHERE status = 'shipped' AND id NOT IN (SELECT order_id FROM payments)"
    assert ledger.connection.execute(unpaid).fetchall() == []
    ledger.close()


def test_the_ledger_refuses_a_row_without_its_partner() -> None:
    ledger = Ledger(past(1, BEGAN))
    with pytest.raises(sqlite3.IntegrityError):
        ledger.connection.execute("INSERT INTO payments VALUES (100000, 100000, 1, 'card', '')")
    ledger.close()


def test_what_is_sent_twice_happens_once() -> None:
    once, twice = Ledger(past(1, BEGAN)), Ledger(past(1, BEGAN))
    for _, _, transactions in generated(1, minutes=10):
        once.carry_out(transactions)
        for transaction in transactions:
            twice.carry_out([transaction, transaction])
    assert once.all() == twice.all()
    once.close()
    twice.close()


def test_everything_happens() -> None:
    steps = generated(4)
    kinds = Counter(statement.sql for _, _, all_ in steps for transaction in all_ for statement in transaction)
    wanted = [insert(table) for table in ("customers", "orders", "order_lines", "payments", "follows", "reviews")]
    wanted += [f"DELETE FROM {table} WHERE id = %s" for table in ("orders", "reviews")]
    wanted += [
        "DELETE FROM follows WHERE follower = %s AND followed = %s",
        "UPDATE customers SET country = %s WHERE id = %s",
        "UPDATE products SET price = %s WHERE id = %s",
        "UPDATE orders SET status = %s WHERE id = %s",
    ]
    assert {sql for sql in wanted if not kinds[sql]} == set()


def test_phones_send_late_and_the_load_is_modest() -> None:
    steps = generated(5)
    views = [(now, view) for now, found, _ in steps for view in found]
    delays = [(now - datetime.fromisoformat(str(view["at"])), view["device"]) for now, view in views]
    late = [device for delay, device in delays if delay > timedelta(seconds=15)]
    assert set(late) == {"mobile"}
    assert min(delay for delay, _ in delays) == timedelta(0)
    seconds = len(steps) / 2
    transactions = sum(len(found) for _, _, found in steps)
    assert 5 < len(views) / seconds < 40
    assert 1 < transactions / seconds < 10
    assert {view["action"] for _, view in views} == {"view", "cart"}


def test_nobody_waits_for_ever_while_the_shop_is_closed() -> None:
    generator = Generator(1, known_of(past(1, BEGAN)), BEGAN)
    for number in range(2400):
        generator.browse(BEGAN + timedelta(seconds=number / 2))
    ordered = generator.trade(BEGAN + timedelta(minutes=20))
    ledger = Ledger(past(1, BEGAN))
    ledger.carry_out(ordered)
    ledger.close()
