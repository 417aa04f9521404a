"""Places to begin and to end are told apart by their form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headwater.cli.places import parse_end, parse_start
from headwater.errors import UsageError
from headwater.log.embedded.position import commit_position


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("42", 42),
        ("position:42", commit_position(42)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_a_start_is_read(text: str, place: object) -> None:
    assert parse_start(text) == place


def test_a_duration_is_that_long_ago() -> None:
    before = datetime.now(UTC)
    place = parse_end("10m")
    assert isinstance(place, datetime)
    assert before <= place + timedelta(minutes=10) <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["", "soon", "-1", "position:", "position:x", "2026-13-01"])
def test_what_is_no_place_is_refused_with_a_hint(text: str) -> None:
    for parse in (parse_start, parse_end):
        with pytest.raises(UsageError) as refused:
            parse(text)
        assert refused.value.hint


def test_a_read_does_not_end_at_the_earliest() -> None:
    with pytest.raises(UsageError, match="not a place to end"):
        parse_end("earliest")
