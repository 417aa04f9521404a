"""Following a view: its content, then every change, once and in order, no matter who is slow, gone, killed or late."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.engine.relational import store
from headwater.engine.subscription import Changes, Subscription
from headwater.log.embedded.position import commit_position
from headwater.server import frames
from headwater.server.sse import Mark
from tests.server.shop import Event, Shop, added_up, following, opened

CHANGES = "/views/v/changes"
COUNT = 25


def rows(shop: Shop) -> dict[str, int]:
    """What the view holds, read from the server."""
    found = shop.client.get("/views/v?limit=10000").json()["rows"]
    changes = [{"weight": 1, "row": row} for row in found]
    return added_up([Event("snapshot", None, {"changes": changes})])


def until(condition: Callable[[], bool], seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.02)


def test_the_content_comes_first_and_then_every_change(shop: Shop) -> None:
    with following(shop.server.url, CHANGES) as events:
        first = events.next()
        assert (first.name, first.id, first.data["position"]) == ("snapshot", "0.1", "0")
        assert first.data["changes"] == [
            {"weight": 1, "row": {"key": 1, "text": "one"}},
            {"weight": 1, "row": {"key": 2, "text": "two"}},
        ]
        shop.publish((1, "one", -1), (1, "eins", 1), position=3)
        second = events.next()
        assert (second.name, second.id, second.data["position"]) == ("change", "3.1", "3")
        assert {(one["weight"], one["row"]["text"]) for one in second.data["changes"]} == {(-1, "one"), (1, "eins")}
        shop.publish((9, "nine", 1), position=4)
        assert events.next().id == "4.1"


def test_a_follower_goes_on_where_it_was(shop: Shop) -> None:
    with following(shop.server.url, CHANGES) as events:
        last = events.next().id
    for number in range(3, 6):
        shop.publish((number, "x", 1), position=number)
    with following(shop.server.url, CHANGES, last) as events:
        assert [events.next().id for _ in range(3)] == ["3.1", "4.1", "5.1"]
    with following(shop.server.url, CHANGES, "4.1") as events:
        assert events.next().id == "5.1"
    with following(shop.server.url, CHANGES, "5.1") as events:
        shop.publish((6, "x", 1), position=6)
        assert events.next().id == "6.1"


def test_a_follower_goes_on_although_nothing_has_changed_for_long(shop: Shop) -> None:
    """The position moves on without changes of this view, and its hub begins behind where the follower was."""
    shop.driver.publish({}, 50)
    with following(shop.server.url, CHANGES, "0.1") as events:
        until(lambda: shop.service.subscribers().get("v") == 1)
        shop.publish((6, "x", 1), position=60)
        found = events.next()
        assert (found.name, found.id) == ("change", "60.1")


def test_who_was_away_too_long_is_told_and_gets_the_content(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3, 9):
        shop.publish((number, "x", 1), position=number)
    monkeypatch.setattr(store, "HISTORY_BATCHES_MAX", 2)
    shop.driver.store.collect()
    with following(shop.server.url, CHANGES, "3.1") as events:
        reset, content = events.next(), events.next()
        assert (reset.name, reset.id, reset.data["error"]["code"]) == ("reset", None, "view_position_gone")
        assert (content.name, content.id) == ("snapshot", "8.1")
        assert added_up([content]) == rows(shop)


def test_a_place_of_a_view_that_was_deleted_since_is_reset(shop: Shop) -> None:
    with following(shop.server.url, CHANGES, "999.7") as events:
        assert [events.next().name, events.next().name] == ["reset", "snapshot"]


@pytest.mark.parametrize("last", ["x", "1", "1.2.3"])
def test_what_is_no_place(shop: Shop, last: str) -> None:
    answered = shop.client.get(CHANGES, headers={"Last-Event-ID": last})
    assert (answered.status_code, answered.json()["error"]["code"]) == (400, "usage")


def test_an_unknown_view(shop: Shop) -> None:
    assert shop.client.get("/views/nope/changes").status_code == 404
    assert shop.client.get("/views/w/changes").status_code == 404  # defined, and not published yet


def test_a_large_content_comes_in_parts_of_which_the_last_has_the_id(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "EVENT_ROWS_MAX", 10)
    shop.publish(*((number, "x", 1) for number in range(3, 35)), position=1)
    with following(shop.server.url, CHANGES) as events:
        found = [events.next() for _ in range(4)]
        assert [(one.id, one.data["complete"]) for one in found] == [(None, False)] * 3 + [("1.1", True)]
        assert sum(len(one.data["changes"]) for one in found) == 34
        shop.publish(*((number, "x", -1) for number in range(3, 35)), position=2)
        found = [events.next() for _ in range(4)]
        assert [one.id for one in found] == [None] * 3 + ["2.1"]


def test_every_follower_gets_every_change(tmp_path: Path) -> None:
    """Many followers that come at any time, while the view changes; each adds up to what the view holds."""
    with opened(tmp_path) as shop:
        results: list[dict[str, int]] = []

        def follow(delay: float) -> None:
            time.sleep(delay)
            got: list[Event] = []
            with following(shop.server.url, CHANGES) as events:
                for event in events:
                    got.append(event)
                    if event.data["position"] == "60":
                        break
            marks = [Mark.parse(one.id) for one in got if one.id]
            assert marks == sorted(set(marks))
            results.append(added_up(got))

        threads = [threading.Thread(target=follow, args=(number * 0.02,)) for number in range(30)]
        for thread in threads:
            thread.start()
        chosen = random.Random(7)
        held: dict[int, str] = {1: "one", 2: "two"}
        for position in range(1, 61):
            key = chosen.randrange(8)
            change = [(key, held.pop(key), -1)] if key in held else []
            if chosen.random() < 0.7:
                held[key] = f"at {position}"
                change.append((key, held[key], 1))
            shop.publish(*change or [(99, f"at {position}", 1)], position=position)
            time.sleep(0.01)
        # Who came after the last change has it in its content, and waits for nothing more.
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert results == [rows(shop)] * 30


def test_who_is_too_slow_is_dropped_and_told(tmp_path: Path) -> None:
    """The client reads nothing while more happens than the ring holds, and then continues with what it was told."""
    with opened(tmp_path, limits={"ring_events_max": 5, "stream_stall_seconds_max": 300}) as shop:
        text = "x" * 500_000
        raw = socket.create_connection(("127.0.0.1", shop.server.port))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        raw.settimeout(60)
        raw.sendall(f"GET {CHANGES} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answered = b""
        while b"id: 0.1\n" not in answered:
            answered += raw.recv(1 << 16)
        for number in range(1, COUNT + 1):
            shop.publish((number + 10, text, 1), position=number)
        until(lambda: shop.service._hubs["v"].hub._ring.end == Mark(commit_position(COUNT), 1), 60)  # type: ignore[union-attr]
        while piece := raw.recv(1 << 20):
            answered += piece
        raw.close()
        assert b"event: dropped" in answered
        marks = [line.split(b": ")[1].decode() for line in answered.split(b"\n") if line.startswith(b"id: ")]
        assert 0 < len(marks) < COUNT
        assert marks == [f"{number}.1" for number in range(len(marks))]
        assert shop.service.dropped()["v"] == 1
        with following(shop.server.url, CHANGES, marks[-1]) as events:
            going_on = [events.next().id for _ in range(COUNT - len(marks) + 1)]
        assert [*marks, *going_on] == [f"{number}.1" for number in range(COUNT + 1)]


def test_all_who_follow_a_topic_share_a_look_at_its_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted:
        looks = 0

        def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
            self.looks += 1
            time.sleep(0.2)
            return shop.app.log.offsets(topic)

    async def together() -> list[Mapping[int, int]]:
        return list(await asyncio.gather(*(shop.service.ends("pushes") for _ in range(100))))

    loop, log = shop.server._loop, Counted()
    assert loop is not None
    monkeypatch.setattr(shop.service, "log", log)
    assert asyncio.run_coroutine_threadsafe(together(), loop).result(30) == [{0: 0}] * 100
    assert log.looks == 1


def test_a_hub_that_breaks_tells_its_followers_and_the_next_one_goes_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = Subscription.poll

    def broken(self: Subscription, timeout: timedelta | None = timedelta(0)) -> Changes | None:
        if threading.current_thread().name.startswith("headwater-view-"):
            raise RuntimeError("secret detail")
        return poll(self, timeout)

    with following(shop.server.url, CHANGES) as events:
        first = events.next()
        monkeypatch.setattr(Subscription, "poll", broken)
        shop.publish((7, "seven", 1), position=7)
        told = [event for event in events if event.name == "dropped"]
    assert len(told) == 1
    assert "secret detail" not in str(told[0].data)
    monkeypatch.undo()
    with following(shop.server.url, CHANGES, first.id) as events:
        assert events.next().id == "7.1"


def test_a_client_that_takes_nothing_is_given_up(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"stream_stall_seconds_max": 1, "ring_bytes_max": 100 << 20}) as shop:
        raw = socket.create_connection(("127.0.0.1", shop.server.port))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        raw.sendall(f"GET {CHANGES} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        until(lambda: shop.service.streams == 1)
        for number in range(1, 31):
            shop.publish((number + 10, "x" * 500_000, 1), position=number)
        until(lambda: shop.service.streams == 0)
        assert shop.service.counters.get("headwater_streams_stalled_total") == 1
        raw.close()
        assert shop.client.get("/healthz").status_code == 200


def test_a_client_that_goes_away_is_forgotten(shop: Shop) -> None:
    with following(shop.server.url, CHANGES) as events:
        events.next()
        assert shop.service.streams == 1
    until(lambda: shop.service.streams == 0)
    assert shop.service.subscribers() == {"v": 0}


def test_a_change_that_is_larger_than_the_ring_drops_those_who_follow(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"ring_bytes_max": 10_000}) as shop:
        with following(shop.server.url, CHANGES) as events:
            events.next()
            shop.publish(*((number, "x" * 100, 1) for number in range(3, 500)), position=1)
            dropped = events.next()
            assert (dropped.name, dropped.data["position"]) == ("dropped", "0")
        with following(shop.server.url, CHANGES, "0.1") as events:
            assert events.next().id == "1.1"


def test_there_are_only_so_many_streams(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"streams_max": 1}) as shop, following(shop.server.url, CHANGES) as events:
        events.next()
        for path in (CHANGES, "/topics/clicks/records", "/flow", "/history"):
            answered = shop.client.get(path, headers={"Accept": "text/event-stream"})
            assert (answered.status_code, answered.json()["error"]["code"]) == (429, "too_many")


def test_a_server_that_ends_tells_its_followers(tmp_path: Path) -> None:
    ended: list[str] = []
    with opened(tmp_path) as shop:
        ready = threading.Event()

        def follow() -> None:
            with following(shop.server.url, CHANGES) as events:
                for event in events:
                    ready.set()
                    ended.append(event.name)

        thread = threading.Thread(target=follow)
        thread.start()
        assert ready.wait(20)
    thread.join(20)
    assert ended == ["snapshot", "dropped"]


def test_what_happens_now_is_streamed(shop: Shop) -> None:
    with following(shop.server.url, "/history") as samples, following(shop.server.url, "/flow") as flow:
        shop.append({"url": "a"})
        until(lambda: samples.next().data["topics"]["clicks"] == 1)

        def records() -> int:
            whole, sample = flow.next(), flow.next()
            assert (whole.name, sample.name) == ("flow", "sample")
            nodes = {one["id"]: one for one in whole.data["nodes"]}
            return int(nodes["topic:clicks"]["records"])

        until(lambda: records() == 1)
