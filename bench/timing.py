"""Measuring: how often, for how long, and what of many measurements is shown."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

MILLISECONDS = 1e3


def rate(work: Callable[[], int], *, seconds: float, rounds: int = 5) -> float:
    """Units of work per second: the median of some rounds, each at least so long, after one call to warm up."""
    work()
    return statistics.median(_rate_once(work, seconds / rounds) for _ in range(rounds))


def percentile(values: Sequence[float], fraction: float) -> float:
    """The smallest value that is not exceeded by this fraction of them."""
    ordered = np.sort(np.asarray(values))
    return float(ordered[min(len(ordered) - 1, math.ceil(fraction * len(ordered)) - 1)])


def latencies(work: Callable[[], object], *, seconds: float) -> list[float]:
    """How long each call takes, in seconds, for as many calls as the time allows, after one to warm up."""
    work()
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until or not taken:
        work()
        taken.append(time.perf_counter() - began)
    return taken


def _rate_once(work: Callable[[], int], seconds: float) -> float:
    done = 0
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds or not done:
        done += work()
    return done / elapsed
