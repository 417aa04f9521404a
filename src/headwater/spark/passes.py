"""The passes that a planned flow goes through before it runs: each makes another flow of it, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from headwater.spark.choosing import choose
from headwater.spark.flow import Flow
from headwater.spark.fusing import fuse
from headwater.spark.pruning import prune_operators, prune_projections, prune_sources

PASSES: tuple[Callable[[Flow], Flow], ...] = (
    prune_projections,
    prune_operators,
    # What a table does not keep need not be read for it.
    prune_sources,
    # Which columns are where is known only now.
    choose,
    fuse,
)


def optimized(flow: Flow) -> Flow:
    """The flow after all passes."""
    return reduce(lambda made, change: change(made), PASSES, flow)
