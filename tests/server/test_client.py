"""Both clients against a server: what they append, read and follow, through lost connections too."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import islice
from typing import Any

import httpx
import pytest

from headwater.client import AsyncClient, Change, Client
from headwater.errors import RequestRefused, ServerUnavailable
from headwater.model.position import Position
from headwater.server.tokens import Tokens
from tests.server.shop import Shop


@pytest.fixture
def client(shop: Shop) -> Iterator[Client]:
    with Client(shop.server.url) as client:
        yield client


def test_records_are_appended_once_per_key(shop: Shop, client: Client) -> None:
    rows = [{"user": 1, "url": "a"}, {"user": 2, "url": "b"}]
    first, again = client.append("clicks", rows, key="k"), client.append("clicks", rows, key="k")
    assert (first.records, first.duplicate, again.duplicate) == (2, False, True)
    assert first.position == again.position == shop.app.log.position()
    assert client.append("clicks", b'{"url": "c"}\n').position > first.position
    assert shop.app.log.scan("clicks", columns=["url"])["url"].to_pylist() == ["a", "b", "c"]
    with pytest.raises(RequestRefused) as error:
        client.append("clicks", [{"user": "x"}])
    assert error.value.code == "invalid_records"


def test_views_are_read_at_a_position(shop: Shop, client: Client) -> None:
    position = client.append("clicks", [{"url": "a"}]).position
    shop.publish((3, "three", 1))
    found = client.read("v", where=["key:ge:2"], order="-key", limit=1, at_least=position)
    assert (found.rows, found.complete, found.position) == ([{"key": 3, "text": "three"}], False, position)
    assert client.lookup("v", 3, at_least=position, timeout="10 s").rows == found.rows
    assert client.lookup("v", 99).rows == []
    assert client.query("SELECT count(*) AS n FROM v", at_least=position).rows == [{"n": 3}]
    with pytest.raises(ServerUnavailable) as error:
        client.read("v", at_least=client.append("clicks", [{"url": "b"}]).position, timeout=0.01)
    assert (error.value.status, error.value.code) == (504, "not_yet")
    with pytest.raises(RequestRefused):
        client.read("nope")


def texts(change: Change) -> list[tuple[str, int]]:
    return [(row["text"], weight) for row, weight in change.rows]


class Cutting(httpx.HTTPTransport):
    """Breaks every connection once its answer has come to a blank line this many times."""

    def __init__(self, events: int) -> None:
        super().__init__()
        self.events, self.asked = events, list[str | None]()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.headers.get("Last-Event-ID"))
        response = super().handle_request(request)
        assert isinstance(response.stream, httpx.SyncByteStream)
        return httpx.Response(response.status_code, headers=response.headers, stream=Cut(response.stream, self.events))


class Cut(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, events: int) -> None:
        self._stream, self._left = stream, events

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            yield part
            self._left -= part.count(b"\ndata: ")
            if self._left <= 0:
                raise httpx.ReadError("The connection was cut.")

    def close(self) -> None:
        self._stream.close()


def test_a_subscription_resumes_where_its_connection_was_cut(shop: Shop) -> None:
    cutting = Cutting(events=1)
    with Client(shop.server.url, transport=cutting) as client:
        changes = client.subscribe("v")
        first = next(changes)
        assert (first.kind, texts(first)) == ("snapshot", [("one", 1), ("two", 1)])
        for number, text in ((3, "three"), (4, "four"), (5, "five")):
            shop.publish((number, text, 1), position=number)
            change = next(changes)
            assert (change.kind, change.position, texts(change)) == (
                "change",
                Position.parse(str(number)),
                [(text, 1)],
            )
        assert cutting.asked == [None, "0.1", "3.1", "4.1"]


def test_a_subscription_begins_after_an_id(shop: Shop, client: Client) -> None:
    for number, text in ((3, "three"), (4, "four")):
        shop.publish((number, text, 1), position=number)
    assert [texts(change) for change in islice(client.subscribe("v", after="0.1"), 2)] == [
        [("three", 1)],
        [("four", 1)],
    ]
    with pytest.raises(RequestRefused):
        next(client.subscribe("nope"))


def test_an_address_without_a_server(shop: Shop) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with Client(f"http://127.0.0.1:{unused.getsockname()[1]}") as client, pytest.raises(ServerUnavailable) as error:
            client.append("clicks", [{"url": "a"}], key="k")
    assert (error.value.status, error.value.code) == (0, "unreachable")


def test_a_token_is_sent(shop: Shop) -> None:
    token = Tokens(shop.app.directory).create("importer", "write")
    deadline = time.monotonic() + 40
    while not shop.service.tokens.known():
        assert time.monotonic() < deadline, "the server did not look at its tokens in time"
        time.sleep(0.05)
    with Client(shop.server.url, token=token) as client:
        assert client.append("clicks", [{"url": "a"}]).records == 1
    with Client(shop.server.url, token="hw_wrong") as client, pytest.raises(RequestRefused) as error:
        client.append("clicks", [{"url": "a"}])
    assert error.value.status == 401


async def first(changes: AsyncGenerator[Change]) -> Change:
    async with aclosing(changes):
        return await anext(changes)


def test_the_same_with_asyncio(shop: Shop) -> None:
    async def use() -> dict[str, Any]:
        async with AsyncClient(shop.server.url) as client:
            appended = await client.append("clicks", [{"url": "a"}], key="k")
            again = await client.append("clicks", [{"url": "a"}], key="k")
            shop.publish((3, "three", 1))
            with pytest.raises(RequestRefused):
                await client.read("nope")
            return {
                "again": (appended.position == again.position, again.duplicate),
                "read": (await client.read("v", at_least=appended.position, order="key")).rows[-1],
                "lookup": (await client.lookup("v", 3)).rows,
                "query": (await client.query("SELECT count(*) AS n FROM v")).rows,
                "changes": (await first(client.subscribe("v"))).kind,
                "after": texts(await first(client.subscribe("v", after="0.1"))),
            }

    assert asyncio.run(use()) == {
        "again": (True, True),
        "read": {"key": 3, "text": "three"},
        "lookup": [{"key": 3, "text": "three"}],
        "query": [{"n": 3}],
        "changes": "snapshot",
        "after": [("three", 1)],
    }
