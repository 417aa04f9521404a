"""Waiting for sockets."""

from __future__ import annotations

import os
import resource
import socket

from headwater.connectors.postgres.address import wait


def test_a_socket_of_any_number() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    try:
        here, there = socket.socketpair()
        with here, there:
            high = os.dup2(here.fileno(), 1100)
            try:
                assert not wait(high, 0)
                assert wait(high, None, writing=True)
                there.sendall(b"x")
                assert wait(high, 10)
                assert wait(high, -1)
            finally:
                os.close(high)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
