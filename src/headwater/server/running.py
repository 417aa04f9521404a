"""The server at work: its socket, and its event loop in a thread beside whatever else the process does."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import uvicorn
import uvloop

from headwater.errors import HeadwaterError, UsageError
from headwater.server import memory
from headwater.server.acceptor import Acceptor
from headwater.server.application import build
from headwater.server.connections import allow_many_files
from headwater.server.endpoint import Endpoint
from headwater.server.gate import is_loopback
from headwater.server.protocol import Connection
from headwater.server.records import forget_keys
from headwater.server.service import Service
from headwater.system.background import kept

BACKLOG = 2048
UNSENT_BYTES_MAX = 128 << 10
"""Bytes of a connection that the kernel keeps before it can send them; otherwise it keeps up to 4 MB of an answer."""
ENDING_SECONDS_MAX = 3
"""How long requests that are under way may take when the server ends."""
FORGET_EVERY_SECONDS = 600.0
"""How often idempotency keys that are too old are forgotten."""
GIVE_BACK_EVERY_SECONDS = 2.0
"""How often it is looked whether there is memory to give back."""
SWITCH_SECONDS = 0.001
"""How long a thread that computes keeps others of this process waiting: at Python's own 5 ms, a request that goes
through three threads waits for 15 ms beside a pipeline that computes."""
HOST = "127.0.0.1"
PORT = 8580
"""Where the server listens unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server listens. Port 0 is any that is free."""

    host: str = HOST
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_public(self) -> bool:
        """Whether others than this machine can reach it."""
        return not is_loopback(self.host)

    def check(self) -> Address:
        """The address itself. Raises `UsageError`."""
        if (self.certificate is None) != (self.key is None):
            raise UsageError("TLS needs a certificate and its key.", hint="Give both --tls-certificate and --tls-key.")
        if self.certificate is not None and self.key is not None:
            try:
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.certificate, self.key)
            except (OSError, ssl.SSLError) as error:
                raise UsageError(f"The certificate cannot be used: {error}.") from error
        return self


class _Known(logging.Filter):
    """Leaves out what uvicorn says about a stream that was given up because its client takes nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "without completing response" not in record.getMessage()


logging.getLogger("uvicorn.error").addFilter(_Known())


class _Uvicorn(uvicorn.Server):
    """Accepts within the limits of a service, and tells when it does."""

    def __init__(
        self, config: uvicorn.Config, service: Service, listening: socket.socket, ready: threading.Event
    ) -> None:
        super().__init__(config)
        self._service, self._listening, self._ready = service, listening, ready
        self._acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._acceptor = Acceptor(
            self._listening,
            self._service.connections,
            self._connection,
            tls=self.config.ssl,
            handshake_seconds=self._service.limits.header_seconds_max,
        )
        self._acceptor.start()
        self._ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        self._listening.close()
        await super().shutdown(sockets)

    def _connection(self, on_end: Callable[[], None]) -> Connection:
        counters = self._service.counters

        def count(limit: str) -> None:
            counters.add("headwater_connections_ended_total", limit=limit)

        return Connection(self.config, self.server_state, self._service.limits, count, on_end)


class Server:
    """Serves in a thread: from `start` to `stop`, or within a `with` block. `more` are endpoints beside the API."""

    def __init__(self, service: Service, address: Address, more: Sequence[Endpoint] = ()) -> None:
        self._service, self._address = service, address.check()
        if address.is_public and not service.tokens.all():
            raise UsageError(
                f"Others can reach {address.host}, but there are no tokens.",
                hint="Create one with `headwater token`, or listen on 127.0.0.1.",
            )
        self._socket = listen(address)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            build(service, more),
            lifespan="off",
            http="httptools",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=ENDING_SECONDS_MAX,
            ssl_certfile=None if address.certificate is None else str(address.certificate),
            ssl_keyfile=None if address.key is None else str(address.key),
        )
        self._ready = threading.Event()
        self._server = _Uvicorn(config, service, self._socket, self._ready)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="headwater-server", daemon=True)

    @property
    def url(self) -> str:
        """Where to look."""
        scheme = "http" if self._address.certificate is None else "https"
        host = "localhost" if is_loopback(self._address.host) else self._address.host
        return f"{scheme}://{host}:{self.port}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Answers requests when it returns."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Ends streams and requests, and returns when nothing is left of them. The application stays open."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(self._end)
        self._thread.join()

    def wait(self) -> BaseException | None:
        """Returns when the server has ended: what it failed with, None if it was stopped."""
        self._thread.join()
        return self._failure

    def _end(self) -> None:
        self._service.close_streams()
        self._server.should_exit = True

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:  # noqa: BLE001 - told to who started the thread
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._service.start()
            upkeep = [
                asyncio.create_task(kept("idempotency-keys", self._forget)),
                asyncio.create_task(kept("memory", self._give_back)),
            ]
            await self._server.serve(sockets=[])
            for task in upkeep:
                task.cancel()
        finally:
            self._socket.close()
            await self._service.stop()

    async def _forget(self) -> None:
        while True:
            await asyncio.sleep(FORGET_EVERY_SECONDS)
            # What cannot be forgotten now is forgotten next time.
            with suppress(HeadwaterError, OSError):
                await self._service.threads.append(forget_keys, self._service)

    async def _give_back(self) -> None:
        while True:
            await asyncio.sleep(GIVE_BACK_EVERY_SECONDS)
            if memory.is_worth_it(self._service.bodies, self._service.answers):
                await self._service.threads.run(memory.give_back)


def listen(address: Address) -> socket.socket:
    """The socket that clients connect to. Raises `UsageError` if there is none to be had."""
    allow_many_files()
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What the kernel keeps for a client that does not read; what is on its way comes on top of it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
        # A client that is gone or does not read is given up by the kernel, with all that waits to be sent to it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
        listening.bind((address.host, address.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        hint = "Choose another port with --port, or 0 for any free one."
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"Port {address.port} of {address.host} is already in use.", hint=hint) from error
        reason = error.strerror or error
        raise UsageError(f"Port {address.port} of {address.host} is not available: {reason}.", hint=hint) from error
    return listening


def is_free(host: str, port: int) -> bool:
    """Whether a port is available."""
    try:
        listen(Address(host, port)).close()
    except UsageError:
        return False
    return True
