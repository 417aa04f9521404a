"""The workers of a server: some that wait for a query, and another for each that had to be ended."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path

from starlette.responses import Response

from headwater.errors import HeadwaterError, QueryTooLong, Refused
from headwater.log.port import Log
from headwater.model.position import Position
from headwater.server.answers import POSITION_HEADER
from headwater.server.counters import Counters
from headwater.server.limits import Limits
from headwater.server.queries.forking import Forking, Worker, WorkerGone
from headwater.server.queries.messages import Question, Reply, WorkerOptions
from headwater.server.threads import Threads

WARM_UP_AFTER_SECONDS = 1.0
"""When the first worker is started unless a query comes before: not at once, so that it does not hold up the start."""
WAITING_MAX = 2
"""Workers that are kept for the next queries."""
QUERIES_PER_WORKER_MAX = 1000
"""Then another takes its place, should something grow with every query."""
START_SECONDS_MAX = 30.0
"""How long a worker may take until it is ready, on a machine that has much else to do."""
KILL_AFTER_SECONDS = 1.0
"""How long after its time a query is killed: what DuckDB can interrupt, the worker has ended by then."""
CAUSE_SECONDS_MAX = 5.0
"""How long to wait for what ended a worker."""
ENDED = "headwater_queries_ended_total"
_log = logging.getLogger("headwater.server")


class QueryPool:
    """Runs queries in processes of their own. Belongs to the server's event loop."""

    def __init__(self, log: Log, directory: Path, limits: Limits, threads: Threads, counters: Counters) -> None:
        self._limits, self._threads, self._counters = limits, threads, counters
        self._options = WorkerOptions(
            log.url,
            str(directory.absolute()),
            limits.query_seconds_max,
            limits.query_answer_bytes_max,
            limits.query_bytes_max,
            limits.query_views_bytes_max,
            limits.query_cpu_seconds_max,
            limits.query_threads_max,
            QUERIES_PER_WORKER_MAX,
        )
        self._forking: Forking | None = None
        self._starting = asyncio.Lock()
        self._waiting: deque[Worker] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    @property
    def processes(self) -> list[int]:
        """The workers, as the system numbers them."""
        workers = [] if self._forking is None else self._forking.workers
        return [worker.process for worker in workers if worker.process is not None]

    def start(self) -> None:
        """Has a worker ready soon."""
        self._do(self._warm_up())

    async def stop(self) -> None:
        """Returns when no process is left."""
        self._closing.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._forking is not None:
            await self._forking.stop()

    async def answer(self, sql: str, rows_max: int, at_least: Position | None) -> Response:
        """What a query gives, or what is wrong with it. Raises `HeadwaterError`.

        A query whose answer nobody waits for any more is ended.
        """
        worker, is_over = await self._take(), True
        try:
            async with asyncio.timeout(self._limits.query_seconds_max + KILL_AFTER_SECONDS):
                question = Question(sql, rows_max, None if at_least is None else str(at_least))
                reply, body = await worker.ask(question, self._limits.query_answer_bytes_max)
            is_over = reply.is_last
        except TimeoutError as error:
            self._count("query_seconds_max")
            raise QueryTooLong(self._limits.query_seconds_max) from error
        except WorkerGone as error:
            raise await self._cause(worker) from error
        finally:
            self._give_back(worker, is_over=is_over)
        return self._response(reply, body)

    def _response(self, reply: Reply, body: bytes) -> Response:
        if reply.failure is not None:
            _log.error("POST /query failed\n%s", reply.failure)
        if reply.limit is not None:
            self._count(reply.limit)
        headers = {} if reply.position is None else {POSITION_HEADER: reply.position}
        return Response(body, reply.status, headers, media_type="application/json")

    def _count(self, limit: str) -> None:
        self._counters.add(ENDED, limit=limit)

    async def _take(self) -> Worker:
        """A worker that is ready, for this query alone. Raises `Refused`."""
        with suppress(OSError, TimeoutError, WorkerGone):
            async with asyncio.timeout(START_SECONDS_MAX):
                is_new = False
                while not is_new:
                    is_new = not self._waiting
                    while not self._waiting:
                        # The client may be gone by then; the worker is for the next one.
                        await asyncio.shield(self._do(self._add()))
                    worker = self._waiting.popleft()
                    if await self._is_ready(worker):
                        self._keep_one_waiting()
                        return worker
        raise Refused(
            503,
            "no_query_worker",
            "The server could not start a process for the query.",
            hint="Try again soon; the server's log may have more.",
            headers={"Retry-After": "1"},
        )

    async def _is_ready(self, worker: Worker) -> bool:
        """Waits until a worker is ready; False if it has ended before that."""
        is_ready = False
        try:
            await worker.get_ready()
            is_ready = True
        except WorkerGone:
            pass
        finally:
            if not is_ready:
                self._give_back(worker, is_over=True)
        return is_ready

    async def _add(self) -> None:
        """Starts one more worker. Raises `OSError`, `WorkerGone`."""
        async with self._starting:
            if self._closing.is_set():
                raise WorkerGone
            if self._forking is None or not self._forking.is_running:
                ended, self._forking = self._forking, Forking(self._options, self._threads)
                if ended is not None:
                    await ended.stop()
                await self._forking.start()
            worker = self._forking.start_worker()
        worker.ended.add_done_callback(lambda _: self._has_ended(worker))
        self._waiting.append(worker)

    def _has_ended(self, worker: Worker) -> None:
        if worker in self._waiting:
            self._waiting.remove(worker)
            worker.connection.close()
        self._keep_one_waiting()

    def _give_back(self, worker: Worker, *, is_over: bool) -> None:
        if not is_over and not worker.ended.done() and len(self._waiting) < WAITING_MAX:
            self._waiting.append(worker)
            return
        if self._forking is not None:
            self._forking.kill(worker)
        self._keep_one_waiting()

    def _keep_one_waiting(self) -> None:
        forking = self._forking
        if self._waiting or self._closing.is_set() or forking is None or not forking.is_running:
            return
        if len(forking.workers) < self._limits.queries_max and not self._starting.locked():
            self._do(self._add_quietly())

    async def _warm_up(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(WARM_UP_AFTER_SECONDS):
                await self._closing.wait()
        if self._forking is None:
            await self._add_quietly()

    async def _add_quietly(self) -> None:
        # If there is none to be had, the next query says so.
        with suppress(OSError, WorkerGone):
            await self._add()

    def _do(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Lets something run to its end, whatever becomes of the client."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Waiting clients are told; there may be no more of them.
        if not task.cancelled():
            task.exception()

    async def _cause(self, worker: Worker) -> HeadwaterError:
        """Why a worker has ended."""
        number = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(CAUSE_SECONDS_MAX):
                number = await asyncio.shield(worker.ended)
        if number == signal.SIGXCPU:
            self._count("query_cpu_seconds_max")
            return QueryTooLong(self._limits.query_cpu_seconds_max, limit="query_cpu_seconds_max")
        _log.error(
            "The process of a query ended: %s", signal.Signals(number).name if number else "for an unknown reason"
        )
        if number in (0, signal.SIGKILL, signal.SIGTERM):
            return Refused(
                503,
                "query_lost",
                "The process that ran the query was killed.",
                hint="Nothing else was lost: run it again.",
                headers={"Retry-After": "1"},
            )
        return Refused(
            422,
            "query_crashed",
            f"DuckDB crashed on the query ({signal.Signals(number).name}).",
            hint="Write the query differently; only the query was lost.",
        )
