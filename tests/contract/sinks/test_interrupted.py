"""A delivery of which a target has a part comes again exactly as it was, whatever the view says meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from headwater.connectors.opensearch import documents
from headwater.connectors.opensearch.target import OpenSearch
from headwater.connectors.redis import target as redis_module
from headwater.connectors.redis.target import Redis
from headwater.engine.relational import store as store_module
from headwater.errors import TargetFailed
from tests.contract.sinks.feeding import Keyed
from tests.contract.sinks.keyed import System
from tests.contract.sinks.opensearch import OpenSearchSystem
from tests.contract.sinks.redis import RedisSystem
from tests.webhooks.receiver import until

SYSTEMS: dict[str, tuple[Callable[[], System], type, str]] = {
    "opensearch": (OpenSearchSystem, OpenSearch, "_bulk"),
    "redis": (lambda: RedisSystem("json"), Redis, "_write"),
}


@pytest.fixture(params=sorted(SYSTEMS))
def interrupted(request: pytest.FixtureRequest, view: Keyed, monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    """A system that has the first row of a delivery of two, and whose sink was killed there; the rest still fits."""
    monkeypatch.setattr(redis_module, "SCRIPT_ROWS_MAX", 1)
    monkeypatch.setattr(documents, "BULK_ROWS_MAX", 1)
    make, kind, step = SYSTEMS[request.param]
    with closing(make()) as system:
        with view.feeding(system.target()) as made:
            until(lambda: made.at() == 1)
        write, calls = getattr(kind, step), []

        def fail(*arguments: object) -> object:
            calls.append(arguments)
            if len(calls) > 1:
                raise TargetFailed("The connection was closed")
            return write(*arguments)

        monkeypatch.setattr(kind, step, fail)
        with view.feeding(system.target()) as made:
            view.publish(k1="eins", k2="zwei")
            until(lambda: made.status().error is not None)
        monkeypatch.setattr(kind, step, write)
        yield system


def test_what_was_taken_back_meanwhile_is_taken_back_in_the_target(interrupted: System, view: Keyed) -> None:
    """Joined, the two changes cancel each other out, and nothing would be written."""
    view.publish(k1="one", k2="two")
    view.publish(k3="three")
    with view.feeding(interrupted.target()) as made:
        until(lambda: made.at() == 4)
        assert not any("starts over" in said for said in made.said)
        assert made.status().deliveries == 3
    assert interrupted.rows() == view.held == {1: "one", 2: "two", 3: "three"}


def test_the_content_comes_if_the_delivery_is_not_kept_on_its_own(
    interrupted: System, view: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 1)
    monkeypatch.setattr(store_module, "CHANGES_BYTES_MAX", 0)
    view.driver.store.release({})
    for number in range(5):
        view.publish(k1="one" if number % 2 == 0 else "eins")
    view.driver.store.collect()
    with view.feeding(interrupted.target()) as made:
        until(lambda: interrupted.rows() == view.held)
        assert any("starts over" in said for said in made.said)
