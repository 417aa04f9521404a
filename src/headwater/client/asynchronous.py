"""The client for programs with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from typing import Any, Self, Unpack

import httpx

from headwater.client import protocol
from headwater.client.answers import Appended, Change, Row, Rows
from headwater.client.connections import SILENCE_SECONDS, arguments, lost, settings
from headwater.client.following import Following
from headwater.client.options import Reading
from headwater.client.protocol import Exchange, Pause, Response, Result
from headwater.errors import ServerUnavailable
from headwater.model.durations import Duration
from headwater.model.position import Position


class AsyncClient:
    """A connection to a server, for one event loop. `options` are those of `httpx.AsyncClient`."""

    def __init__(self, url: str, *, token: str | None = None, **options: Any) -> None:
        self._http = httpx.AsyncClient(**settings(url, token, options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def append(
        self,
        topic: str,
        rows: Iterable[Row] | bytes,
        *,
        key: str | None = None,
        partition: int | None = None,
        wait: Sequence[str] = (),
        timeout: Duration = protocol.WAIT_SECONDS,  # noqa: ASYNC109 - the server's limit, not one of this task
    ) -> Appended:
        """As `Client.append`."""
        return await self._run(protocol.append(topic, rows, key=key, partition=partition, wait=wait, timeout=timeout))

    async def wait(
        self,
        position: Position,
        *,
        sinks: Sequence[str],
        timeout: Duration = protocol.WAIT_SECONDS,  # noqa: ASYNC109 - the server's limit, not one of this task
    ) -> None:
        """As `Client.wait`."""
        await self._run(protocol.wait(position, sinks, timeout=timeout))

    async def sinks(self) -> Sequence[Row]:
        """As `Client.sinks`."""
        return await self._run(protocol.sinks())

    async def read(
        self,
        view: str,
        *,
        where: Sequence[str] = (),
        order: str | None = None,
        limit: int = 100,
        offset: int = 0,
        at: Position | None = None,
        **reading: Unpack[Reading],
    ) -> Rows:
        """As `Client.read`."""
        return await self._run(
            protocol.read(view, where=where, order=order, limit=limit, offset=offset, at=at, **reading)
        )

    async def lookup(self, view: str, *key: object, **reading: Unpack[Reading]) -> Rows:
        """As `Client.lookup`."""
        return await self._run(protocol.lookup(view, key, **reading))

    async def query(self, sql: str, *, limit: int | None = None, **reading: Unpack[Reading]) -> Rows:
        """As `Client.query`."""
        return await self._run(protocol.query(sql, limit=limit, **reading))

    async def subscribe(self, view: str, *, after: str | None = None) -> AsyncGenerator[Change]:
        """As `Client.subscribe`. Close it with `contextlib.aclosing` when you leave it before its end."""
        following, failures = Following(after), 0
        while True:
            following.connected()
            given = {**arguments(protocol.changes(view, following.after)), "timeout": SILENCE_SECONDS}
            # In one generator: two that are closed by the event loop would be closed at once.
            with suppress(httpx.TransportError, ServerUnavailable):
                async with self._http.stream(**given) as response:
                    if response.status_code >= 400:
                        protocol.check(Response(response.status_code, await response.aread()))
                    async for line in response.aiter_lines():
                        change = following.line(line)
                        if change is not None:
                            failures = 0
                            yield change
            failures += 1
            await asyncio.sleep(protocol.pause_before(failures).seconds)

    async def _run(self, exchange: Exchange[Result]) -> Result:
        try:
            step = next(exchange)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = exchange.send(None)
                    continue
                try:
                    answered = await self._http.request(**arguments(step))
                except httpx.TransportError as error:
                    step = exchange.throw(lost(error))
                else:
                    step = exchange.send(Response(answered.status_code, answered.content))
        except StopIteration as done:
            result: Result = done.value
            return result
