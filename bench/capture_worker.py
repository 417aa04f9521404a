"""A capture in a process of its own, as it runs in production: `capture_worker.py URL LOG DIRECTORY NAME`."""

from __future__ import annotations

import sys
from pathlib import Path

import headwater as hw
from headwater.connectors.postgres.address import address_of
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.options import CaptureOptions


def main() -> None:
    url, log, directory, name = sys.argv[1:]
    options = CaptureOptions(name, address_of(url), tables=("orders",), directory=Path(directory))
    Capture(hw.open(log), options).run()


if __name__ == "__main__":
    main()
