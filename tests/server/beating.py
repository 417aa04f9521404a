"""A pipeline of the shop as far as others see it, until it is killed: `python beating.py DIRECTORY`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tests.server.shop import application


def main() -> None:
    with application(Path(sys.argv[1])) as app, app.beating():
        sys.stdout.write("beating\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
