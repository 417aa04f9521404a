"""The address of a webhook is checked when it is declared, and never shown in full."""

from __future__ import annotations

import pytest

from headwater.connectors.webhooks.target import Target, parse_target
from headwater.errors import UsageError


def test_a_url_is_taken_apart() -> None:
    found = parse_target("https://Hooks.Example.com/in?key=hush", allow_private=False)
    assert found == Target("https", "hooks.example.com", 443, "/in?key=hush")
    assert parse_target("https://example.com", allow_private=False).path == "/"
    assert parse_target("http://[::1]:8080/a", allow_private=True) == Target("http", "::1", 8080, "/a", True)
    assert parse_target("https://bücher.example/", allow_private=False).host == "xn--bcher-kva.example"


def test_what_it_shows_ends_with_the_host() -> None:
    assert str(parse_target("https://example.com/hush?hush", allow_private=False)) == "https://example.com"
    assert str(parse_target("http://[::1]:8080/hush", allow_private=True)) == "http://[::1]:8080"
    assert "hush" not in repr(parse_target("https://example.com/hush", allow_private=False))


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com/hush", "ftp://example.com/hush", "https:///hush", "https://example.com:99999/hush"),
        *("http://example.com/hush", "https://me:hush@example.com/", "https://example.com/hush more"),
        *("https://example.com/hush\r\nx: y", "https://example.com/hüsh", "https://[::1/hush", "https://a..b/hush"),
    ],
)
def test_a_url_that_can_not_be_sent_to_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_target(url, allow_private=False)
    assert "hush" not in f"{refused.value} {refused.value.hint} {refused.value.__cause__}"
