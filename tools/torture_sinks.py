"""Kills sinks and their targets, cuts, delays and repeats their traffic, N rounds each, and compares all rows."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from tests.contract.sinks.opensearch import stop_opensearch
from tests.sinks.torture import torture
from tests.sinks.victims import VICTIMS

STORY_ROUNDS = 20
"""Rounds that one view and one target live through; then both begin again, with the next seed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="for each target")
    parser.add_argument("--only", nargs="+", choices=sorted(VICTIMS), default=sorted(VICTIMS), help="these targets")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed strikes in the same order")
    options = parser.parse_args()
    try:
        for name in options.only:
            _torture(name, options.seed, _stories(options.rounds))
    finally:
        stop_opensearch()


def _stories(rounds: int) -> Sequence[int]:
    return [min(STORY_ROUNDS, rounds - first) for first in range(0, rounds, STORY_ROUNDS)]


def _torture(name: str, seed: int, stories: Sequence[int]) -> None:
    for number, rounds in enumerate(stories):
        print(f"{name}: --only {name} --seed {seed + number} --rounds {rounds}", flush=True)
        figures = torture(name, seed + number, rounds, say=lambda text: print(f"  {text}", flush=True))
        print(f"{name}, seed {seed + number}: {figures}", flush=True)


if __name__ == "__main__":
    main()
