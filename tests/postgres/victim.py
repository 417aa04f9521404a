"""A capture in a process of its own, to be killed: `python victim.py URL LOG DIRECTORY NAME`."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

import headwater as hw
from headwater.connectors.postgres import snapshot
from headwater.connectors.postgres.address import address_of
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.options import CaptureOptions


def main() -> None:
    url, log, directory, name = sys.argv[1:]
    # Small, so that kills fall between chunks.
    snapshot.CHUNK_BLOCKS = 2
    print(f"begun {os.getpid()}", flush=True)
    options = CaptureOptions(
        name, address_of(url), tables=("*",), heartbeat=timedelta(seconds=0.3), directory=Path(directory)
    )
    Capture(hw.open(log), options, say=lambda text: print(text, flush=True)).run()


if __name__ == "__main__":
    main()
