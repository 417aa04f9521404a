"""The ids that Catalyst gives to expressions, made equivalent each time a view is planned.

Spark's optimizer iterates over sets of expressions in hash order, and the hash depends on an id from one counter for
the whole JVM. So the plan of a query can depend on whatever was planned before it. To rule that out, the counter jumps
to the start of a new window before a view is planned. In window `w`, both 32-bit halves of an id start at
`w << WINDOW_BITS`, and `Long.hashCode` XORs the halves: the n-th id of every window hashes to n. The counter never
moves back, so ids stay unique.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from headwater.spark.catalyst import Catalyst

WINDOW_BITS = 15
"""A window has 2**15 ids. A plan that needs more is still correct, but may come out differently next time."""
_WINDOWS = 2 ** (31 - WINDOW_BITS)
_UPPER = 32

planning = RLock()
"""Held while a view is planned: other plans made meanwhile would take ids from the view's window."""


@contextmanager
def numbered_alike(catalyst: Catalyst) -> Iterator[None]:
    """Expressions created in the block hash as they did the last time the same block ran. One block runs at a time."""
    with planning:
        catalyst.continue_from(window_after(catalyst.next_number()))
        yield


def window_after(number: int) -> int:
    """The start of the next window; the number itself if no window is left."""
    window = (number >> (_UPPER + WINDOW_BITS)) + 1
    if window >= _WINDOWS:
        return number
    half = window << WINDOW_BITS
    return (half << _UPPER) | half
