"""Threads for what blocks: the disk, SQLite, and work that takes longer than an event loop can wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

READS_MAX = 4
"""Threads that read: more of them would take longer for all, because they share the interpreter and one connection."""
APPENDS_MAX = 64
"""Threads that append: those that wait for the disk at the same time share an fsync."""

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Two pools, so that reads do not wait behind appends."""

    def __init__(self) -> None:
        self._reads = ThreadPoolExecutor(READS_MAX, "headwater-read")
        self._appends = ThreadPoolExecutor(APPENDS_MAX, "headwater-append")

    async def run(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Reads."""
        return await asyncio.get_running_loop().run_in_executor(self._reads, lambda: function(*arguments, **options))

    async def append(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Appends."""
        return await asyncio.get_running_loop().run_in_executor(self._appends, lambda: function(*arguments, **options))

    def close(self) -> None:
        self._reads.shutdown(wait=True)
        self._appends.shutdown(wait=True)
