"""Every picture of the console is shown or linked in its guide, and every one that is linked is there."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_every_picture_of_the_console_is_linked() -> None:
    linked = set(re.findall(r"\(\.\./pictures/console/([\w-]+\.png)\)", (DOCS / "guides" / "console.md").read_text()))
    assert linked == {path.name for path in (DOCS / "pictures" / "console").glob("*.png")}
