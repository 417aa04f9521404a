"""Durations are read as written, in every form that the API takes, and what is none is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UsageError
from headwater.model.durations import duration_of, format_duration, is_duration, parse_duration

DURATIONS = st.timedeltas(min_value=timedelta(0))
UNITS = {"microseconds": 1, "ms": 10**3, "seconds": 10**6, "min": 60 * 10**6, "hours": 3600 * 10**6, "d": 86400 * 10**6}


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("5min", timedelta(minutes=5)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1.5h", timedelta(hours=1, minutes=30)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        (" 1H 5M ", timedelta(hours=1, minutes=5)),
        ("0s", timedelta(0)),
        ("10 minutes", timedelta(minutes=10)),
        ("1 hour 30 minutes", timedelta(hours=1, minutes=30)),
        ("1 Week", timedelta(weeks=1)),
        ("250 us", timedelta(microseconds=250)),
    ],
)
def test_a_duration_is_read(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "5", "5x", "m", "-5m", "1h and 5m", "99999999999w", "٣s"])
def test_what_is_no_duration_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_duration(text)
    assert refused.value.hint


@given(DURATIONS)
def test_a_duration_is_written_as_it_is_read(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(DURATIONS, st.sampled_from(["", " "]), st.booleans())
def test_a_duration_in_words_is_the_sum_of_its_parts(duration: timedelta, space: str, upper: bool) -> None:
    left, parts = duration // timedelta.resolution, []
    for unit, size in reversed(UNITS.items()):
        count, left = divmod(left, size)
        parts.append(f"{count}{space}{unit}")
    text = " ".join(parts)
    assert parse_duration(text.upper() if upper else text) == duration


@given(st.text() | st.from_regex(r"[0-9.]{0,5} ?(m|min|hour|day)s?", fullmatch=True))
def test_any_text_is_a_duration_or_is_refused(text: str) -> None:
    if is_duration(text):
        assert duration_of("timeout", text) >= timedelta(0)
    else:
        with pytest.raises(UsageError, match="Invalid timeout"):
            duration_of("timeout", text)


@given(DURATIONS)
def test_a_timedelta_is_itself(duration: timedelta) -> None:
    assert duration_of("timeout", duration) == duration


@given(st.integers(0, 10**12) | st.floats(0, 10**6))
def test_a_number_is_seconds(seconds: float) -> None:
    assert duration_of("timeout", seconds) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value", [-1, -0.5, float("nan"), float("inf"), 1e300, 10**15, timedelta(-1), True, None, [], b"1s", "ten minutes"]
)
def test_what_is_no_duration_is_named_with_its_argument(value: Any) -> None:
    with pytest.raises(UsageError, match="Invalid idle_timeout: ") as refused:
        duration_of("idle_timeout", value)
    assert refused.value.hint
