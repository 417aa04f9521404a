"""Which addresses a webhook may be sent to, so that a name cannot lead into our own network."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

_IPV6_PUBLIC = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(text)
    # What Python takes for global: relays and translations to IPv4 (which may be any address), and documentation.
    for text in ("192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20")
)


class Endpoint(NamedTuple):
    """Where to connect to: a family of addresses, and what `connect` takes."""

    family: int
    address: tuple[Any, ...]


class NotPublic(Exception):
    """A name stands for an address that is not public."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


def is_public(text: str) -> bool:
    """Whether an address is one of the internet: no loopback, no private or local network, nothing reserved."""
    if "%" in text:
        return False  # it has a zone: it is of this machine's own network
    ip = ipaddress.ip_address(text)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip not in _IPV6_PUBLIC:
            return False
    barred = not ip.is_global or ip.is_multicast or ip.is_reserved
    return not barred and not any(ip in network for network in _NOT_PUBLIC)


def resolve(
    host: str, port: int, *, allow_private: bool, lookup: Callable[..., Any] = socket.getaddrinfo
) -> list[Endpoint]:
    """The addresses of a name, all of them checked: connect to one of these, and do not look the name up again.

    Raises `NotPublic` if any of them is not, and `OSError`.
    """
    found = [Endpoint(family, address) for family, _, _, _, address in lookup(host, port, type=socket.SOCK_STREAM)]
    for endpoint in found:
        address = str(endpoint.address[0])
        if not allow_private and not is_public(address):
            raise NotPublic(address)
    return found
