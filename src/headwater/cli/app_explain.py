"""`headwater explain`: what a view is made of."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.app_argument import PANEL, Application
from headwater.cli.app_progress import steps
from headwater.cli.arguments import examples
from headwater.cli.output import print_json, print_line
from headwater.loading import check_topics, load

ViewName = Annotated[
    str | None, typer.Argument(metavar="VIEW", help="Only this view; all by default.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(rich_help_panel=PANEL, epilog=examples("headwater explain app.py", "headwater explain app.py revenue"))(
        explain
    )


def explain(
    application: Application,
    view: ViewName = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the operators of one view or all views: their levels, keys and state, and the expressions between them.

    Each operator stands above what it reads from. What is linear is kept right by adding up changes; the rest is
    recomputed, for the groups that a change touches. "by group" is the general operator, which hands all rows of these
    groups to Spark. All operators of one level share one stage of the Spark job that a batch is.
    """
    with load(application, "stand_in") as app:
        check_topics(app)
        with steps() as step:
            if view is None or view in app.views:
                app.plan(step)
            explained = app.explain(view)
        if as_json:
            print_json([explained.to_json()])
            return
        for name in explained.views:
            print_line((name, "bold"))
            for line in explained.tree(name):
                print_line(line)
            print_line()
        for line in explained.picture():
            print_line(line)
