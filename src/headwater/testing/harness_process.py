"""The process of a harness that is killed: it keeps an application's views up to date, and prints a line per batch."""

from __future__ import annotations

import sys
from pathlib import Path

from headwater.loading import load


def main(application: str, folder: str) -> None:
    with load(application, "create", log=Path(folder)) as app:
        for progress in app.follow(lambda: False):
            print(progress.batch, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
