"""What a page of somebody else can make a browser do: nothing."""

from __future__ import annotations

import pytest

from headwater.errors import Refused
from headwater.server.gate import check_host, check_origin, is_loopback, proves_origin


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"])
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", ""])
def test_not_this_machine(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["localhost", "localhost:8580", "127.0.0.1:1", "[::1]:8580", "LOCALHOST:80"])
def test_names_of_this_machine_are_answered(host: str) -> None:
    check_host(host)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8580", "127.0.0.1.evil.example", "", "[::2]:80"])
def test_a_name_that_was_rebound_is_refused(host: str) -> None:
    with pytest.raises(Refused) as refused:
        check_host(host)
    assert refused.value.status == 421


HERE = {"host": "localhost:8580"}


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {}),
        ("POST", {"origin": "http://localhost:8580"}),
        ("POST", {"origin": "http://localhost:8580", "sec-fetch-site": "same-origin"}),
        ("GET", {"sec-fetch-site": "none"}),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}),
    ],
)
def test_programs_and_own_pages_may(method: str, headers: dict[str, str]) -> None:
    check_origin(method, {**HERE, **headers})


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {"origin": "http://evil.example"}),
        ("POST", {"origin": "http://localhost:9999"}),
        ("POST", {"origin": "null"}),
        ("DELETE", {"sec-fetch-site": "cross-site"}),
        ("POST", {"sec-fetch-site": "same-site", "origin": "http://localhost:8580"}),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}),
    ],
)
def test_pages_of_others_may_not(method: str, headers: dict[str, str]) -> None:
    with pytest.raises(Refused) as refused:
        check_origin(method, {**HERE, **headers})
    assert refused.value.status == 403


def test_a_cookie_alone_proves_nothing() -> None:
    assert not proves_origin(HERE)
    assert proves_origin({"origin": "http://localhost:8580"})
    assert proves_origin({"sec-fetch-site": "same-origin"})
    assert not proves_origin({"sec-fetch-site": "cross-site"})
