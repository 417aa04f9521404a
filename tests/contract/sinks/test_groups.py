"""Sinks of one group: two tables of PostgreSQL that show one position at any time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.app import App
from headwater.connectors.postgres.target.target import Postgres
from headwater.connectors.redis.target import Redis
from headwater.engine.parts import Report, Stop
from headwater.engine.sinks.grouped import MemberFeed
from headwater.engine.view_store import HELD_CHANGES
from headwater.errors import UsageError
from headwater.runner import feeds_of
from headwater.sinks import Target
from tests.contract.sinks.postgres import PostgresSystem
from tests.unit.engine.samples import Driver, Unsynced, zset
from tests.webhooks.receiver import until

TABLES = ("one", "two")


class Said(Report):
    def __init__(self) -> None:
        self.said: list[str] = []

    def warn(self, text: str) -> None:
        self.said.append(text)


class Pair:
    """The views `one` and `two` of one row each, with a number that is the same in both after every batch of both."""

    def __init__(self, directory: Path) -> None:
        self.system = PostgresSystem()
        self.directory = directory
        self.app = App("shop", log=directory / "data")
        self.driver = Driver(self.app.directory, views=TABLES, storage=Unsynced())
        self.said = Said()
        self.held: dict[str, str] = {}
        self.publish(*TABLES)

    def target(self, name: str) -> Target:
        return Postgres(self.system.server.url(self.system.database), table=f"t_{name}")

    def publish(self, *views: str) -> None:
        """Publishes the next number in some of the views."""
        text = f"{self.driver.batch + 1}"
        before = {view: [(1, 1, self.held[view], -1)] if view in self.held else [] for view in views}
        self.driver.publish({view: zset(*before[view], (1, 1, text, 1)) for view in views})
        self.held |= dict.fromkeys(views, text)

    def looked(self) -> dict[str, str]:
        """What both tables show in one look; nothing before they are there."""
        found = self.system.execute("SELECT count(*) FROM pg_tables WHERE starts_with(tablename, 't_')")
        if found != [(2,)]:
            return {}
        ((one, two),) = self.system.execute("SELECT (SELECT text FROM t_one), (SELECT text FROM t_two)")
        return {"one": str(one), "two": str(two)}

    def arrives(self) -> None:
        until(lambda: self.looked() == self.held)

    @contextmanager
    def feeding(self) -> Iterator[App]:
        """Feeds the group, as a new process would."""
        app = App("shop", log=self.app.log)
        for name in TABLES:
            app.view(name, "SELECT 1")
            app.sink(f"s_{name}", view=name, to=self.target(name), key="key", group="both")
        (feed,) = feeds_of(app)
        stop = Stop()
        thread = threading.Thread(target=feed.run, args=(stop, self.said))
        thread.start()
        try:
            yield app
        finally:
            stop.set()
            thread.join(30)
            app.close()
            assert not thread.is_alive()

    def close(self) -> None:
        self.driver.close()
        self.app.close()
        self.system.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def test_both_tables_show_one_position_at_any_time(pair: Pair) -> None:
    seen: list[dict[str, str]] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            if found := pair.looked():
                seen.append(found)

    looking = threading.Thread(target=look)
    with pair.feeding():
        looking.start()
        try:
            for _ in range(60):
                pair.publish(*TABLES)
            pair.arrives()
        finally:
            stop.set()
            looking.join()
    assert len({each["one"] for each in seen}) > 1
    assert [each for each in seen if each["one"] != each["two"]] == []
    assert pair.said.said == []


def test_a_view_that_changes_alone_arrives(pair: Pair) -> None:
    with pair.feeding() as app:
        pair.arrives()
        for views in (["one"], ["two"], ["two"], ["one", "two"], ["one"]):
            pair.publish(*views)
            pair.arrives()
        until(lambda: [feed.status().lag for feed in app.sinks.values()] == [0, 0])
        assert {feed.status().position for feed in app.sinks.values()} == {f"{pair.driver.batch}"}
        app.wait(pair.driver.store.generation(pair.driver.generation).position, timeout=20)


def test_a_new_process_continues_where_both_are(pair: Pair) -> None:
    for views in (TABLES, ("one",), ("two",), TABLES):
        with pair.feeding():
            pair.arrives()
        pair.publish(*views)
    with pair.feeding():
        pair.arrives()
    assert pair.said.said == []


def test_what_was_confirmed_is_not_kept(pair: Pair) -> None:
    def lows() -> dict[str, int]:
        with pair.driver.store.read() as look:
            return {hold.follower: hold.low for hold in look.holds()}

    with pair.feeding():
        pair.arrives()
        # A follower says what it has when it asks for more changes than it may take at once.
        for _ in range(3):
            for _ in range(2 * HELD_CHANGES):
                pair.publish(*TABLES)
            pair.arrives()
        until(lambda: lows().keys() == {"sink-s_one", "sink-s_two"} and min(lows().values()) > 1)


def test_a_table_that_lost_its_position_gets_the_content_with_the_other(pair: Pair) -> None:
    with pair.feeding():
        pair.arrives()
        pair.system.execute("DROP TABLE t_one")
        pair.publish(*TABLES)
        pair.arrives()
    pair.system.execute("UPDATE headwater_sinks SET stamp = '' WHERE table_name = 't_two'")
    pair.publish("one")
    with pair.feeding():
        pair.arrives()


def test_one_of_a_group_is_audited_and_the_group_is_paused_and_reset(pair: Pair) -> None:
    with pair.feeding() as app:
        pair.arrives()
        one, two = app.sinks["s_one"], app.sinks["s_two"]
        until(lambda: two.status().position is not None)
        pair.system.execute("UPDATE t_two SET text = 'wrong'")
        assert one.audit().equal
        assert two.audit().different.named == ({"key": 1},)
        assert two.audit(repair=True).repaired
        pair.arrives()
        one.pause()
        assert two.status().status == "paused"
        pair.publish(*TABLES)
        pair.system.execute("UPDATE t_two SET text = 'wrong'")
        two.resume()
        two.reset()
        pair.arrives()


def test_what_cannot_move_together_is_refused(pair: Pair) -> None:
    with App("other", log=pair.app.log) as app:
        app.sink("a", view="one", to=pair.target("one"), key="key", group="both")
        with pytest.raises(UsageError, match="cannot move together"):
            app.sink("b", view="two", to=Redis("redis://127.0.0.1:1/0", prefix="t:"), key="key", group="both")
        elsewhere = Postgres("postgresql://127.0.0.1:1/other", table="t")
        with pytest.raises(UsageError, match="cannot move together"):
            app.sink("b", view="two", to=elsewhere, key="key", group="both")
        with pytest.raises(UsageError, match="cannot be in a group"):
            app.sink("b", view="two", to=print, group="both")
        with pytest.raises(UsageError, match="already a sink named 'a'"):
            app.sink("a", view="two", to=pair.target("two"), key="key", group="both")
        assert list(app.sinks) == ["a"]


def test_sinks_of_a_group_keep_their_places_among_the_others(pair: Pair) -> None:
    with App("other", log=pair.app.log) as app:
        app.sink("b", view="one", to=pair.target("one"), key="key", group="both")
        assert list(app.sinks) == ["b"]
        app.sink("a", view="two", to=print)
        app.sink("c", view="two", to=pair.target("two"), key="key", group="both")
        assert list(app.sinks) == ["b", "a", "c"]
        first, _, last = app.sinks.values()
        assert isinstance(first, MemberFeed)
        assert isinstance(last, MemberFeed)
        assert first.group is last.group
