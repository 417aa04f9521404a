"""Kills the feeds of Parquet, Delta and Iceberg tables N times each, and compares the tables with the view."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.contract.sinks.lake import SYSTEMS
from tests.lake.killing import kill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="how often, for each kind of table")
    parser.add_argument("--rounds", type=int, default=20, help="kills per table")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed makes the same changes")
    parser.add_argument("--only", choices=sorted(SYSTEMS), nargs="*", default=sorted(SYSTEMS))
    options = parser.parse_args()
    for name in options.only:
        for number in range(0, options.kills, options.rounds):
            system, rounds = SYSTEMS[name](), min(options.rounds, options.kills - number)
            with tempfile.TemporaryDirectory(prefix="hw") as place:
                try:
                    deliveries = kill(system, Path(place), rounds=rounds, seed=options.seed + number)
                finally:
                    system.close()
            print(
                f"{name}, seed {options.seed + number}: {rounds} kills, {deliveries:,} deliveries, all right",
                flush=True,
            )


if __name__ == "__main__":
    main()
