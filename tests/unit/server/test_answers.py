"""A stream of events ends in order, whatever ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message

from headwater.errors import HeadwaterError, UsageError
from headwater.server.answers import EventStream


def streamed(stream: EventStream) -> bytes:
    """What a client gets that stays until the end."""
    got: list[bytes] = []

    async def receive() -> Message:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        got.append(message.get("body", b""))

    asyncio.run(stream({"type": "http"}, receive, send))
    return b"".join(got)


async def two(error: Exception | None) -> AsyncIterator[bytes]:
    yield b"data: 1\n\n"
    if error is not None:
        raise error
    yield b"data: 2\n\n"


def test_a_stream_ends() -> None:
    ended: list[bool] = []
    got = streamed(EventStream(two(None), stall_seconds=5, on_end=ended.append))
    assert got == b"retry: 1000\n\ndata: 1\n\ndata: 2\n\n"
    assert ended == [False]


@pytest.mark.parametrize("error", [UsageError("Enough."), RuntimeError("secret detail"), OSError("secret detail")])
def test_what_goes_wrong_is_told_and_the_stream_is_over(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    ended: list[bool] = []
    with caplog.at_level(logging.CRITICAL):
        got = streamed(EventStream(two(error), stall_seconds=5, on_end=ended.append))
    assert b"event: error" in got
    assert (b"Enough." in got) == isinstance(error, HeadwaterError)
    assert b"secret detail" not in got
    assert ended == [False]


def test_who_may_have_no_more_gets_no_more() -> None:
    def check() -> None:
        raise UsageError("No more.")

    stream = EventStream(two(None), stall_seconds=5)
    stream.check = check
    got = streamed(stream)
    assert b"No more." in got
    assert b"data: 1" not in got
