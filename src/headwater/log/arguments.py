"""What callers may give where a number is meant, checked when the program runs."""

from __future__ import annotations


def is_whole(value: object, least: int) -> bool:
    """Whether it is a whole number that is not less than another; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
