"""The fork server as the server sees it: workers are started and ended through it, and it tells how each ended."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headwater.server.queries.messages import (
    CONTROL_BYTES_MAX,
    LENGTH,
    READY,
    Question,
    Reply,
    WorkerOptions,
    decode,
    encode,
    framed,
)
from headwater.server.threads import Threads

REPLY_BYTES_MAX = 1 << 20
"""Of what comes before the body of an answer."""
ERROR_BYTES_MAX = 16 << 20
"""Of a body that says what is wrong, with a line of the query in it; more than that is no answer of a worker's."""
PIECE_BYTES = 1 << 20
STOP_SECONDS_MAX = 5.0
"""How long a fork server may take to end; then it is killed, and its workers with it."""
# The modules are found where this process finds them.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from headwater.server.queries.fork_server import main; main()"
)
_ENVIRONMENT = {
    # What is reserved before the limit is set is not limited: Arrow's own allocator reserves 1 GiB, and the system's 64
    # MiB for each of its arenas.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    # Only a process without threads can be forked.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
_HANDED_ON = re.compile(r"PATH|HOME|LANG|TZ|TMPDIR|VIRTUAL_ENV|(PYTHON|LC_|LD_).*")
"""What a fork server needs of the server's environment, in which there may be secrets."""


class WorkerGone(Exception):
    """A worker has ended without an answer."""


@dataclass(eq=False, slots=True)
class Worker:
    """A process that answers one query at a time, and the connection to it. `ended` is the signal that ended it."""

    number: int
    connection: socket.socket
    ended: asyncio.Future[int]
    process: int | None = None
    is_ready: bool = field(default=False)

    async def get_ready(self) -> None:
        """Returns when it can take a query. Raises `WorkerGone`."""
        if not self.is_ready:
            await self._exactly(len(READY))
            self.is_ready = True

    async def ask(self, question: Question, body_bytes_max: int) -> tuple[Reply, bytes]:
        """The answer to a query. Raises `WorkerGone`."""
        try:
            await asyncio.get_running_loop().sock_sendall(self.connection, framed(question))
        except OSError as error:
            raise WorkerGone from error
        length = LENGTH.unpack(await self._exactly(LENGTH.size))[0]
        reply = Reply(**decode(await self._exactly(_checked(length, REPLY_BYTES_MAX))))
        return reply, await self._exactly(_checked(reply.body_bytes, max(body_bytes_max, ERROR_BYTES_MAX)))

    async def _exactly(self, size: int) -> bytes:
        loop, content, filled = asyncio.get_running_loop(), bytearray(size), 0
        with memoryview(content) as view:
            while filled < size:
                try:
                    count = await loop.sock_recv_into(self.connection, view[filled : filled + PIECE_BYTES])
                except OSError as error:
                    raise WorkerGone from error
                if not count:
                    raise WorkerGone
                filled += count
        return bytes(content)


def _checked(size: int, size_max: int) -> int:
    """A worker that says anything else than it should is not believed."""
    if size > size_max:
        raise WorkerGone
    return size


class Forking:
    """One fork server, from `start` to `stop`. Belongs to an event loop."""

    def __init__(self, options: WorkerOptions, threads: Threads) -> None:
        self._options, self._threads = options, threads
        self._workers: dict[int, Worker] = {}
        self._next = 0
        self._control: socket.socket | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._listening is not None and not self._listening.done()

    @property
    def workers(self) -> list[Worker]:
        """Those that have not ended."""
        return list(self._workers.values())

    async def start(self) -> None:
        """Raises `OSError` if the system starts no process."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._program = await self._threads.run(_start, self._options, theirs.fileno())
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self._control = ours
        self._listening = asyncio.create_task(self._listen(ours))

    def start_worker(self) -> Worker:
        """A new worker, which is perhaps not ready yet. Raises `OSError`."""
        assert self._control is not None
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._next += 1
        try:
            with theirs:
                socket.send_fds(self._control, [json.dumps({"start": self._next}).encode()], [theirs.fileno()])
        except OSError:
            ours.close()
            raise
        worker = Worker(self._next, ours, asyncio.get_running_loop().create_future())
        self._workers[worker.number] = worker
        return worker

    def kill(self, worker: Worker) -> None:
        """Ends a worker, whatever it does."""
        worker.connection.close()
        # If there is no fork server any more, there are no workers either.
        with suppress(OSError):
            if self._control is not None and not worker.ended.done():
                self._control.send(json.dumps({"kill": worker.number}).encode())

    async def stop(self) -> None:
        """Ends the fork server, and returns when it and all its workers are gone."""
        if self._control is not None:
            # Closed only when nobody waits for what comes from it.
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
        if self._listening is not None:
            await self._listening
        if self._control is not None:
            self._control.close()
        if self._program is not None:
            await self._threads.run(_wait, self._program)

    async def _listen(self, control: socket.socket) -> None:
        """Takes what the fork server tells, until it ends."""
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while content := await loop.sock_recv(control, CONTROL_BYTES_MAX):
                self._told(decode(content))
        for worker in self.workers:
            self._end(worker, 0)

    def _told(self, message: dict[str, Any]) -> None:
        if "started" in message and (worker := self._workers.get(message["started"])) is not None:
            worker.process = message["process"]
        elif "ended" in message and (worker := self._workers.get(message["ended"])) is not None:
            self._end(worker, message["signal"])

    def _end(self, worker: Worker, number: int) -> None:
        self._workers.pop(worker.number, None)
        if not worker.ended.done():
            worker.ended.set_result(number)


def _wait(program: subprocess.Popen[bytes]) -> None:
    try:
        program.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def _start(options: WorkerOptions, control: int) -> subprocess.Popen[bytes]:
    arguments = [encode(options).decode(), str(control), str(os.getpid()), json.dumps(sys.path)]
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[control],
        env={name: value for name, value in os.environ.items() if _HANDED_ON.fullmatch(name)} | _ENVIRONMENT,
        # Ctrl-C is for the server, which ends its workers.
        start_new_session=True,
    )
