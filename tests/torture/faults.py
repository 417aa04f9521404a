"""What is done to an application under torture, by name. Each fault returns when it is over, not when it is mended."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Protocol

import httpx

from tests.torture.processes import Command, below

CONNECTIONS = 300
HUNGRY = ("SELECT len(range(1000000000))", "SELECT repeat('x', 1000000000)", "SELECT count(*) FROM range(100000000000)")


class Victim(Protocol):
    """What a fault can reach."""

    run: Command
    serve: Command
    url: str

    def kill_database(self) -> None: ...

    def start_database(self) -> None: ...

    def second_run(self) -> None:
        """Starts another run of the same application, and kills the first one."""
        ...


Fault = Callable[[Victim, random.Random], None]


def kill_pipeline(victim: Victim, dice: random.Random) -> None:
    victim.run.kill()


def kill_driver(victim: Victim, dice: random.Random) -> None:
    """The driver alone: Java and its workers have to notice."""
    victim.run.kill(all_below=False)


def kill_java(victim: Victim, dice: random.Random) -> None:
    _kill_below(victim.run, "java", dice)


def kill_worker(victim: Victim, dice: random.Random) -> None:
    """What the kernel does when memory runs out."""
    _kill_below(victim.run, "spark.daemon", dice)


def stop_pipeline(victim: Victim, dice: random.Random) -> None:
    _pause(victim.run, dice.uniform(1, 8))


def kill_server(victim: Victim, dice: random.Random) -> None:
    victim.serve.kill()


def stop_server(victim: Victim, dice: random.Random) -> None:
    _pause(victim.serve, dice.uniform(1, 5))


def kill_database(victim: Victim, dice: random.Random) -> None:
    victim.kill_database()
    time.sleep(dice.uniform(0, 3))
    victim.start_database()


def kill_everything(victim: Victim, dice: random.Random) -> None:
    victim.kill_database()
    victim.run.kill()
    victim.serve.kill()
    victim.start_database()


def second_run(victim: Victim, dice: random.Random) -> None:
    victim.second_run()


def half_headers(victim: Victim, dice: random.Random) -> None:
    """Connections that send half a header, and nothing more."""
    host, port = victim.url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            with suppress(OSError):
                connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
                connection.sendall(b"GET /views/total HTTP/1.1\r\nHost: loc")
        time.sleep(dice.uniform(1, 4))


def hungry_query(victim: Victim, dice: random.Random) -> None:
    """A query that asks for more memory or time than there is."""
    with suppress(httpx.HTTPError):
        answered = httpx.post(f"{victim.url}/query", json={"sql": dice.choice(HUNGRY)}, timeout=60)
        assert answered.status_code in (422, 429), answered.text


FAULTS: Mapping[str, Fault] = {
    "kill the pipeline and all below it": kill_pipeline,
    "kill the driver": kill_driver,
    "kill Java": kill_java,
    "kill a worker": kill_worker,
    "stop the pipeline for some seconds": stop_pipeline,
    "kill the server": kill_server,
    "stop the server for some seconds": stop_server,
    "kill PostgreSQL": kill_database,
    "kill everything": kill_everything,
    "let a second run take over": second_run,
    "send half a header, 300 times": half_headers,
    "ask for too much": hungry_query,
}


def _kill_below(command: Command, words: str, dice: random.Random) -> None:
    found = below(command.pid, words)
    if found:
        with suppress(ProcessLookupError):
            os.kill(dice.choice(found), signal.SIGKILL)


def _pause(command: Command, seconds: float) -> None:
    command.signal(signal.SIGSTOP, all_below=True)
    time.sleep(seconds)
    command.signal(signal.SIGCONT, all_below=True)
