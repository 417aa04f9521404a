"""Targets that were restored from a backup, or lost data: each is recognized, and gets what it lacks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from headwater.engine.sinks import feed
from headwater.errors import TargetFailed, UsageError
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.keyed import System
from tests.contract.sinks.opensearch import OpenSearchSystem
from tests.contract.sinks.postgres import PostgresSystem
from tests.contract.sinks.test_operating import arrives, is_there
from tests.webhooks.receiver import until

RECOGNIZED = ("the target went back from position", "the target has lost its position", "starts over")


def recognized(said: list[str]) -> bool:
    return any(words in one for one in said for words in RECOGNIZED)


def test_a_target_that_was_restored_while_the_sink_runs_gets_what_it_lacks(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        restore = system.back_up()
        if restore is None:
            return
        view.publish(k1="after the backup", k2=None, k3="three")
        arrives(system, view, made)
        restore()
        assert not is_there(system, view)
        view.publish(k4="four")
        until(lambda: is_there(system, view))
        arrives(system, view, made)
        assert recognized(made.said), made.said
        assert view.audit(system.target())["equal"]


def test_a_restored_target_is_recognized_while_nothing_changes(
    system: System, view: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "CHECK_SECONDS", 0.1)
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        restore = system.back_up()
        if restore is None:
            return
        view.publish(k1="after the backup", k2=None, k3="three")
        arrives(system, view, made)
        restore()
        arrives(system, view, made)
        until(lambda: recognized(made.said))


@pytest.mark.parametrize("repair", [False, True])
def test_an_audit_of_a_target_that_was_just_restored_finds_no_difference(
    system: System, view: Keyed, *, repair: bool
) -> None:
    """The sink does not know yet: the target's rows are those of an earlier position, and right as of that."""
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        restore = system.back_up()
        if restore is None:
            return
        view.publish(k1="after the backup", k2=None, k3="three")
        arrives(system, view, made)
        restore()
        found: list[dict[str, Any]] = []

        def is_audited() -> bool:
            # A server that was restarted does not answer yet, and an index that was deleted gets its content first.
            with suppress(TargetFailed, UsageError):
                found.append(view.audit(system.target(), repair=repair))
            return bool(found)

        until(is_audited)
        assert (found[0]["equal"], found[0]["repaired"]) == (True, None), found
        arrives(system, view, made)


def test_a_target_that_was_restored_while_no_sink_runs_gets_the_difference(system: System, view: Keyed) -> None:
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
    restore = system.back_up()
    if restore is None:
        return
    view.publish(k1="after the backup", k2=None, k3="three")
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
    restore()
    with view.feeding(system.target()) as made:
        arrives(system, view, made)
        # An index of OpenSearch was deleted; the others have an earlier position, and get what came since.
        expected = "lost its position" if isinstance(system, OpenSearchSystem) else "went back from position 2 to 1"
        assert [said for said in made.said if expected in said], made.said


@pytest.mark.parametrize("running", [True, False])
def test_a_table_that_was_restored_without_its_position_gets_the_content(
    view: Keyed, running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position, in another table, is of later rows: that it is not the same table gives it away."""
    monkeypatch.setattr(feed, "CHECK_SECONDS", 0.1)
    system = PostgresSystem()
    try:
        with view.feeding(system.target()) as made:
            arrives(system, view, made)
            dump = f"{system.directory}/texts"
            system.run("pg_dump", "--format=custom", "--table=texts", f"--file={dump}")
            view.publish(k1="after the backup", k2=None)
            arrives(system, view, made)
            if running:
                system.run("pg_restore", "--clean", dump)
                arrives(system, view, made)
        if not running:
            system.run("pg_restore", "--clean", dump)
            assert not is_there(system, view)
            with view.feeding(system.target()) as made:
                arrives(system, view, made)
    finally:
        system.close()
