"""A process that appends, seals, archives and evicts as fast as it can, until it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from headwater.log.embedded.log import EmbeddedLog


def main(directory: Path) -> None:
    with EmbeddedLog(directory) as log:
        number = log.offsets("orders")[0][1]
        while True:
            log.append("orders", [{"id": number, "note": "x" * 100}])
            print(number, flush=True)
            number += 1
            if number % 3 == 0:
                log.seal("orders")
            log.upkeep()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
