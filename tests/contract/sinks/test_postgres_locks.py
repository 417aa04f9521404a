"""Locks that somebody else holds in the target's database: the sink says so, and continues when they are gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from headwater.connectors.postgres.target import target as target_module
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.postgres import PostgresSystem
from tests.webhooks.receiver import until


@pytest.fixture
def system() -> Iterator[PostgresSystem]:
    with closing(PostgresSystem()) as made:
        yield made


@pytest.mark.parametrize(
    "lock",
    ["SELECT stamp FROM headwater_sinks FOR UPDATE", "LOCK TABLE texts IN SHARE MODE"],
    ids=["position", "table"],
)
def test_a_lock_is_reported_and_waited_for(
    system: PostgresSystem, view: Keyed, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    """A transaction that a frozen process has left open, or one of the user's."""
    monkeypatch.setattr(target_module, "LOCK_SECONDS_MAX", 0.2)
    with view.feeding(system.target()):
        until(lambda: system.rows() == view.held)
    with system.server.connect(system.database) as other:
        other.execute("BEGIN")
        other.execute(lock.encode())
        view.publish(k1="eins")
        with view.feeding(system.target()) as made:
            until(lambda: "lock timeout" in (made.status().error or ""))
            other.execute("ROLLBACK")
            until(lambda: system.rows() == view.held)


def test_a_transaction_that_a_process_leaves_open_ends(system: PostgresSystem) -> None:
    target = system.target()
    assert isinstance(target, target_module.Postgres)
    connection = target._connect()
    (idle,) = connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() or ()
    assert idle == "1min"
    target.close()
    connection.close()
