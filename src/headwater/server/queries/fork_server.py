"""A process with nothing but what a query needs, of which each worker is a copy.

A worker that starts from nothing takes half a second to import what it needs; a copy takes some milliseconds, shares
the memory of what was imported, and has nothing of the server: no socket, no thread, no secret. This process runs no
query, so that none can harm it. It ends, and its workers with it, when the server does.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

# DuckDB imports it when it is first given a table, which takes a worker longer than everything else.
import pandas as pd  # noqa: F401

from headwater.server.queries import worker
from headwater.server.queries.messages import CONTROL_BYTES_MAX, WorkerOptions, decode

LOOK_EVERY_SECONDS = 5.0
"""How often it looks whether the server is there, should somebody else hold the other end of the connection."""
PR_SET_PDEATHSIG = 1
WORKER_DESCRIPTOR = 3
_libc = ctypes.CDLL(None, use_errno=True)


class ForkServer:
    """Starts workers, ends them, and tells how each ended, as the server asks through `control`."""

    def __init__(self, control: socket.socket, options: WorkerOptions, server: int) -> None:
        self._control, self._options, self._server = control, options, server
        self._poller = select.poll()
        self._poller.register(control, select.POLLIN)
        self._workers: dict[int, tuple[int, int]] = {}  # by the descriptor of its process: number, process

    def run(self) -> None:
        """Returns when the server is gone, and all workers with it."""
        try:
            while os.getppid() == self._server:
                for descriptor, _ in self._poller.poll(LOOK_EVERY_SECONDS * 1000):
                    if descriptor in self._workers:
                        self._ended(descriptor)
                    elif not self._asked():
                        return
        finally:
            for descriptor, (_, process) in self._workers.items():
                os.kill(process, signal.SIGKILL)
                os.waitid(os.P_PIDFD, descriptor, os.WEXITED)

    def _asked(self) -> bool:
        content, descriptors, _, _ = socket.recv_fds(self._control, CONTROL_BYTES_MAX, 1)
        if not content:
            return False
        asked = decode(content)
        if "start" in asked:
            self._start(asked["start"], descriptors[0])
        else:
            for number, process in self._workers.values():
                if number == asked["kill"]:
                    os.kill(process, signal.SIGKILL)
        return True

    def _start(self, number: int, connection: int) -> None:
        parent = os.getpid()
        try:
            process = os.fork()
        except OSError:
            os.close(connection)
            self._tell(ended=number, signal=0)
            return
        if process == 0:
            _become_worker(parent, connection, self._options)
        os.close(connection)
        descriptor = os.pidfd_open(process)
        self._workers[descriptor] = (number, process)
        self._poller.register(descriptor, select.POLLIN)
        self._tell(started=number, process=process)

    def _ended(self, descriptor: int) -> None:
        number, _ = self._workers.pop(descriptor)
        found = os.waitid(os.P_PIDFD, descriptor, os.WEXITED)
        self._poller.unregister(descriptor)
        os.close(descriptor)
        assert found is not None
        self._tell(ended=number, signal=0 if found.si_code == os.CLD_EXITED else found.si_status)

    def _tell(self, **message: Any) -> None:
        # Who does not listen any more is gone, which the next look tells.
        with suppress(OSError):
            self._control.send(json.dumps(message).encode())


def _become_worker(parent: int, connection: int, options: WorkerOptions) -> NoReturn:
    """Never returns: what the fork server has above this is not for its copy."""
    status = 1
    try:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            _keep_only(connection)
            with socket.socket(fileno=WORKER_DESCRIPTOR) as opened:
                worker.serve(opened, options)
            status = 0
    except (BrokenPipeError, ConnectionResetError):
        status = 0  # the server does not want the answer any more
    except BaseException:  # noqa: BLE001 - the last who sees it
        traceback.print_exc()
    finally:
        os._exit(status)


def _keep_only(connection: int) -> None:
    """Closes every descriptor but standard error, which is the server's, and one."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nothing, standard)
    os.dup2(connection, WORKER_DESCRIPTOR)
    os.closerange(WORKER_DESCRIPTOR + 1, os.sysconf("SC_OPEN_MAX"))


def main() -> None:
    """`options control server`: as JSON, the number of a descriptor, the process to end with."""
    options, control, server = sys.argv[1:]
    gc.freeze()
    ForkServer(socket.socket(fileno=int(control)), WorkerOptions(**decode(options.encode())), int(server)).run()
    # Nothing is left to be written, and taking down what was imported takes longer than all else.
    os._exit(0)
