"""Connections: how many there may be, by the server's limits and by the descriptors of the process."""

from __future__ import annotations

import ipaddress
import resource
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from headwater.server.counters import Counters
from headwater.server.limits import Limits

FILES_MAX = 65_536
"""Open files that the process asks for: each connection is one."""
FILES_RESERVED = 256
"""Descriptors that no connection gets: for the log, the store, the views and the processes of queries."""
REFUSED = "headwater_connections_refused_total"

Reason = Literal["total", "address", "descriptors"]


def allow_many_files() -> None:
    """Raises the number of files that the process may open, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptors_for_connections() -> int:
    """The first number of a descriptor that is reserved. The kernel gives out the lowest that is free.

    So whatever the process has opened by then, a connection with a lower number leaves the reserve as it is.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        files = FILES_MAX
    return files - min(FILES_RESERVED, files // 2)


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or an IPv6 network, which is as easy to have as one address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.ip_network((parsed, 64), strict=False))


class Connections:
    """Who has how many."""

    def __init__(self, limits: Limits, counters: Counters) -> None:
        self._limits, self._counters = limits, counters
        self._total = 0
        self._by_network: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._total

    def add(self, address: str, descriptor: int) -> Callable[[], None] | None:
        """Counts a connection; call what is returned when it has ended, again does no harm. None if it is refused."""
        network = network_of(address)
        reason = self._refusal(network, descriptor)
        if reason is not None:
            self.count_refused(reason)
            return None
        self._total += 1
        self._by_network[network] += 1

        counted = True

        def ended() -> None:
            nonlocal counted
            if not counted:
                return
            counted = False
            self._total -= 1
            self._by_network[network] -= 1
            if not self._by_network[network]:
                del self._by_network[network]

        return ended

    def count_refused(self, reason: Reason) -> None:
        self._counters.add(REFUSED, reason=reason)

    def _refusal(self, network: str, descriptor: int) -> Reason | None:
        if descriptor >= descriptors_for_connections():
            return "descriptors"
        if self._total >= self._limits.connections_max:
            return "total"
        if self._by_network[network] >= self._limits.connections_per_address_max:
            return "address"
        return None
