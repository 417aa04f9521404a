"""Kills a capture of PostgreSQL, its server, or both, N times, and looks for lost, repeated or torn transactions."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.postgres.servers import Server, chosen_versions
from tests.postgres.torture import Torture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how often, over all banks")
    parser.add_argument("--rounds", type=int, default=20, help="kills per bank; each bank begins with a first snapshot")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed kills at the same moments")
    parser.add_argument("--version", default=chosen_versions()[0], help="of PostgreSQL")
    parser.add_argument("--no-views", action="store_true", help="compare the log only, and need no Spark")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create(options.version, Path(directory))
        server.start()
        try:
            for number in range(0, options.kills, options.rounds):
                seed = options.seed + number
                place = Path(tempfile.mkdtemp(dir=directory))
                with server.database() as database:
                    rounds = min(options.rounds, options.kills - number)
                    commits = Torture(server, database, place, seed, views=not options.no_views).run(rounds)
                print(f"PostgreSQL {options.version}, seed {seed}: {rounds} kills, {commits:,} commits, all right")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
