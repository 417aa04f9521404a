"""Serves a shop with few descriptors, while it appends by itself: `python few_files.py DIRECTORY FILES`.

Prints the port, and then a line for each append that was made after opening the log and the views again, as a pipeline
and a capture do all the time. Ends with what it fails with.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from headwater.engine.reading import Reader
from headwater.log.embedded.log import EmbeddedLog
from headwater.server.limits import Limits
from headwater.server.running import Address, Server
from headwater.server.service import Service
from tests.server.shop import application


def main() -> None:
    directory, files = Path(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    limits = Limits(header_seconds_max=3)
    with application(directory) as app, Server(Service(app, limits=limits), Address(port=0)) as server:
        print(server.port, flush=True)
        while True:
            with EmbeddedLog(directory / "data", upkeep=False) as log, Reader(app.directory) as reader:
                reader.current()
                print(log.append("clicks", [{"url": "a"}]), flush=True)
            time.sleep(0.05)


if __name__ == "__main__":
    main()
