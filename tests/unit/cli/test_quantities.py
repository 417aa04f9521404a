"""Sizes are read as written, and what is ambiguous is refused."""

from __future__ import annotations

import pytest

from headwater.cli.quantities import format_age, format_size, parse_size
from headwater.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000", 1000), ("500MB", 500_000_000), ("64MiB", 64 << 20), ("1.5 gib", 3 << 29), ("2tb", 2 * 10**12)],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "1G", "-1", "GiB", "1 GiBs", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1 MiB"),
        (64 << 20, "64 MiB"),
        (123_456_789, "118 MiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_a_size_is_written_short(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (0.25, "250ms"), (59.6, "1m"), (3725, "1h2m"), (90061, "1d1h")]
)
def test_an_age_shows_its_two_largest_units(seconds: float, text: str) -> None:
    assert format_age(seconds) == text
