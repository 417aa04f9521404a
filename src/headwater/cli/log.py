"""The family `headwater log`."""

from __future__ import annotations

import typer

from headwater.cli import log_append, log_care, log_groups, log_iceberg, log_read, log_topics
from headwater.cli.families import Family


def register(app: typer.Typer) -> None:
    """Adds the family."""
    family = typer.Typer(
        cls=Family,
        no_args_is_help=True,
        help="Create, fill, read and maintain a log. A directory is a log; there is no server to run.",
    )
    for module in (log_topics, log_append, log_read, log_groups, log_care, log_iceberg):
        module.register(family)
    groups = typer.Typer(cls=Family, no_args_is_help=True, help="List, show, move and delete consumer groups.")
    log_groups.register_groups(groups)
    family.add_typer(groups, name="groups", rich_help_panel=log_groups.PANEL)
    app.add_typer(family, name="log")
