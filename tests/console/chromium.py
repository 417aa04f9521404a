"""Which Chromium drives the console: Debian's, or whichever is on the PATH."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Its path. `make test` sees to it that there is one."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise FileNotFoundError(
            "There is no Chromium on the PATH: run `make servers`, or install the package chromium."
        )
    return found
