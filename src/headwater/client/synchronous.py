"""The client for programs without asyncio."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
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


class Client:
    """A connection to a server, for one thread or many. `options` are those of `httpx.Client`."""

    def __init__(self, url: str, *, token: str | None = None, **options: Any) -> None:
        self._http = httpx.Client(**settings(url, token, options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def append(
        self,
        topic: str,
        rows: Iterable[Row] | bytes,
        *,
        key: str | None = None,
        partition: int | None = None,
        wait: Sequence[str] = (),
        timeout: Duration = protocol.WAIT_SECONDS,
    ) -> Appended:
        """Appends records; returns when they are durable, and when the targets of the sinks in `wait` have them.

        Raises `SinksBehind` if those do not have them within `timeout`: the records are durable then.

        With a `key`, the request is repeated if its answer is lost, and the records are appended once. Without one, a
        lost answer raises `AnswerLost`. Raises `RequestRefused` if a record does not fit.
        """
        return self._run(protocol.append(topic, rows, key=key, partition=partition, wait=wait, timeout=timeout))

    def wait(self, position: Position, *, sinks: Sequence[str], timeout: Duration = protocol.WAIT_SECONDS) -> None:
        """Returns when the targets of these sinks have everything up to a position. Raises `SinksBehind`."""
        self._run(protocol.wait(position, sinks, timeout=timeout))

    def sinks(self) -> Sequence[Row]:
        """The state of each sink: `position`, `lag`, `lag_seconds`, `rows_per_second`, `status`, `error` and more."""
        return self._run(protocol.sinks())

    def read(
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
        """A page of the rows of a view, at a position that is `at_least` the given one, or as it was `at` one.

        A condition is written `column:operator:value`, such as `amount:ge:10`; `order` names columns, `-column`
        descending. Raises `ServerUnavailable` if the view does not reach the position within `timeout`.
        """
        return self._run(protocol.read(view, where=where, order=order, limit=limit, offset=offset, at=at, **reading))

    def lookup(self, view: str, *key: object, **reading: Unpack[Reading]) -> Rows:
        """The rows of a view with a key: a value for each of its columns. There may be none."""
        return self._run(protocol.lookup(view, key, **reading))

    def query(self, sql: str, *, limit: int | None = None, **reading: Unpack[Reading]) -> Rows:
        """Runs SQL (DuckDB's) over views and topics, as of one position."""
        return self._run(protocol.query(sql, limit=limit, **reading))

    def subscribe(self, view: str, *, after: str | None = None) -> Generator[Change]:
        """The content of a view and then every change, or every change after the one with an id; it does not end.

        After a lost connection it resumes, with no gap and nothing twice. If the server no longer has the changes in
        between, a snapshot comes, which replaces everything known.
        """
        following, failures = Following(after), 0
        while True:
            following.connected()
            given = {**arguments(protocol.changes(view, following.after)), "timeout": SILENCE_SECONDS}
            with suppress(httpx.TransportError, ServerUnavailable), self._http.stream(**given) as response:
                if response.status_code >= 400:
                    protocol.check(Response(response.status_code, response.read()))
                for line in response.iter_lines():
                    change = following.line(line)
                    if change is not None:
                        failures = 0
                        yield change
            failures += 1
            time.sleep(protocol.pause_before(failures).seconds)

    def _run(self, exchange: Exchange[Result]) -> Result:
        try:
            step = next(exchange)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = exchange.send(None)
                    continue
                try:
                    answered = self._http.request(**arguments(step))
                except httpx.TransportError as error:
                    step = exchange.throw(lost(error))
                else:
                    step = exchange.send(Response(answered.status_code, answered.content))
        except StopIteration as done:
            result: Result = done.value
            return result
