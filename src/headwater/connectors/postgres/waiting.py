"""Waits for a socket, whatever its number is: `select` knows only the first thousand open files of a process."""

from __future__ import annotations

import select


def wait(socket: int, seconds: float | None, *, writing: bool = False) -> bool:
    """Whether the socket can be read (or written) within the time; None is for ever."""
    poll = select.poll()
    poll.register(socket, select.POLLOUT if writing else select.POLLIN)
    return bool(poll.poll(None if seconds is None else max(0.0, seconds) * 1000))
