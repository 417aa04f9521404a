"""Does N things to an application that would rather not have them done, and compares everything at the end."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from tests.postgres.servers import Server, chosen_versions
from tests.torture.torture import Torture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="how many, over all applications")
    parser.add_argument("--each", type=int, default=24, help="faults per application; each begins with an empty log")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed has the same faults")
    parser.add_argument("--version", default=chosen_versions()[0], help="of PostgreSQL")
    options = parser.parse_args()
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create(options.version, Path(directory))
        server.start()
        try:
            for number in range(0, options.faults, options.each):
                place = Path(tempfile.mkdtemp(dir=directory))
                with server.database() as database:
                    torture = Torture(server, database, place, options.seed + number)
                    for survived in torture.torture(min(options.each, options.faults - number)):
                        seconds[survived.fault].append(survived.seconds)
                        print(f"{survived.fault}: {survived.seconds:.1f} s to the next publication", flush=True)
                seen = torture.reader
                print(
                    f"seed {options.seed + number}: {len(seen.positions):,} positions and {seen.queries:,} queries "
                    f"looked at, {torture.follower.events:,} events followed, all right"
                )
        finally:
            server.stop()
    for fault, times in seconds.items():
        print(f"{fault}: {len(times)} times, median {median(times):.1f} s, longest {max(times):.1f} s")


if __name__ == "__main__":
    main()
