"""What holds for every source: each change is in the log once, whoever runs it and however often it is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.engine.running import Runner
from headwater.engine.sources import Home
from headwater.log.port import Log
from headwater.system.heartbeat import read_heartbeat
from tests.contract.sources.systems import System
from tests.webhooks.receiver import until


def came(log: Log, system: System) -> list[object]:
    """The rows that are in the log, each as often as it came."""
    return sorted(record.value["id"] for record in log.read(system.topic) if record.value)  # type: ignore[type-var]


@contextmanager
def running(system: System, home: Home) -> Iterator[Runner]:
    with Runner([system.source(home)]) as runner:
        runner.wait_until_ready(lambda: False)
        yield runner
        runner.check()


def test_a_check_names_what_is_read_and_changes_nothing(system: System, home: Home, log: Log) -> None:
    source = system.source(home)
    assert [name.rpartition(".")[2] for name in source.check()] == ["t"]
    assert log.topics() == []
    assert not source.is_ready()
    assert source.status().phase == "not begun"


def test_what_was_there_is_there_when_it_is_ready_and_changes_follow(system: System, home: Home, log: Log) -> None:
    with running(system, home):
        assert came(log, system) == [1, 2]
        system.add(3)
        until(lambda: came(log, system) == [1, 2, 3])
    assert system.source(home).is_ready()
    assert system.topic in system.source(home).topics()


def test_a_new_run_continues_where_the_log_is(system: System, home: Home, log: Log) -> None:
    for number in range(3, 6):
        with running(system, home):
            until(lambda: len(came(log, system)) == number - 1)  # noqa: B023 - it is called at once
        system.add(number)
    with running(system, home):
        until(lambda: came(log, system) == [1, 2, 3, 4, 5])


def test_one_process_runs_it_and_the_next_one_takes_over(system: System, home: Home, log: Log) -> None:
    with running(system, home) as first, running(system, home):
        system.add(3)
        until(lambda: len(came(log, system)) == 3)
        first.stop()
        system.add(4)
        until(lambda: came(log, system) == [1, 2, 3, 4])


def test_everybody_can_see_who_runs_it_and_how_it_is(system: System, home: Home, log: Log) -> None:
    with running(system, home):
        until(lambda: read_heartbeat(home.directory) is not None)
        found = read_heartbeat(home.directory)
        assert found is not None
        assert found.ended_at is None
        until(lambda: not system.source(home).status().alarms)
        status = system.source(home).status()
        assert (status.source, status.phase, status.paused) == ("s", "streaming", False)
        assert status.kind == system.source(home).kind
    ended = read_heartbeat(home.directory)
    assert ended is not None
    assert ended.ended_at is not None
