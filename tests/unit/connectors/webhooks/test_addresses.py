"""A webhook goes to public addresses only, and to the ones that were checked."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from headwater.connectors.webhooks.addresses import Endpoint, NotPublic, is_public, resolve


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.1", "2606:4700::6810:84e5", "::ffff:8.8.8.8"],
)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1"),
        *("203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
        *(
            "::",
            "::1",
            "::7f00:1",
            "fe80::1",
            "fe80::1%eth0",
            "2606:4700::1%eth0",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
        ),
        *("ff02::1", "2001:db8::1", "3fff::1", "100::1", "2001::1", "5f00::1"),
        # IPv4 inside IPv6: mapped, compatible, 6to4, and the two prefixes of NAT64.
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"),
    ],
)
def test_everything_else_is_not(address: str) -> None:
    assert not is_public(address)


def lookup(*addresses: str) -> Any:
    def found(host: str, port: int, **options: object) -> list[tuple[Any, ...]]:
        families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [(family, 1, 6, "", (address, port)) for family, address in zip(families, addresses, strict=True)]

    return found


def test_all_addresses_of_a_name_are_given() -> None:
    found = resolve("example.com", 443, allow_private=False, lookup=lookup("1.1.1.1", "2606:4700::1"))
    assert found == [Endpoint(socket.AF_INET, ("1.1.1.1", 443)), Endpoint(socket.AF_INET6, ("2606:4700::1", 443))]


def test_one_address_that_is_not_public_is_enough_to_refuse_a_name() -> None:
    with pytest.raises(NotPublic) as refused:
        resolve("example.com", 443, allow_private=False, lookup=lookup("1.1.1.1", "10.0.0.7"))
    assert refused.value.address == "10.0.0.7"
    assert len(resolve("example.com", 443, allow_private=True, lookup=lookup("1.1.1.1", "10.0.0.7"))) == 2


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "0x7f.1", "127.1", "::1"])
def test_this_machine_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises(NotPublic):
        resolve(host, 443, allow_private=False)
