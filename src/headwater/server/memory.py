"""Returns unused memory to the machine: the allocator would keep it for the next request."""

from __future__ import annotations

import ctypes

import pyarrow as pa

from headwater.server.budget import Budget

UNUSED_BYTES = 32 << 20
"""As many bytes that were in flight and are not any more are worth the time that it takes to give them back."""


def is_worth_it(*budgets: Budget) -> bool:
    """Whether much less is in flight than since this was last true."""
    unused = sum(one.peak - one.bytes for one in budgets)
    if unused < UNUSED_BYTES:
        return False
    for one in budgets:
        one.peak = one.bytes
    return True


def give_back() -> None:
    """Gives back what Arrow and the C library keep, which takes some milliseconds."""
    pa.default_memory_pool().release_unused()
    # Only glibc has it, and only glibc needs it.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
