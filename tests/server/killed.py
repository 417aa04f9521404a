"""Serves a shop until it is killed: `python killed.py DIRECTORY PORT`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from headwater.server.running import Address, Server
from headwater.server.service import Service
from tests.server.shop import application


def main() -> None:
    with (
        application(Path(sys.argv[1])) as app,
        Server(Service(app), Address(port=int(sys.argv[2]))) as server,
    ):
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
