"""The argument by which commands name an application."""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "Applications"
"""Where help lists the commands that take an application."""

Application = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="The Python file that defines the application: app.py, or app.py:name if it defines more than one.",
        show_default=False,
    ),
]
