"""`headwater views`: changed views that wait for a decision, what they change, and the decision."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from headwater.cli.app_argument import Application
from headwater.cli.app_progress import build_line
from headwater.cli.arguments import Json, examples
from headwater.cli.families import Family
from headwater.cli.output import Column, count, number, print_json, print_line, print_table, say
from headwater.cli.values import readable
from headwater.engine.candidates import SAMPLES, Candidate, ViewDiff
from headwater.engine.pipeline import BuildProgress
from headwater.loading import load
from headwater.published import DECISION
from headwater.system.heartbeat import read_heartbeat

PANEL = "Changed views"

ViewName = Annotated[str, typer.Argument(metavar="VIEW", help="The view.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Adds the family."""
    family = typer.Typer(
        cls=Family,
        no_args_is_help=True,
        help="Compare changed views with those that readers see, and switch to them.",
    )
    for command, *lines in (
        (status, "headwater views status app.py", "headwater views status app.py --json"),
        (diff, "headwater views diff app.py revenue", "headwater views diff app.py revenue --key country --json"),
        (switch, "headwater views switch app.py"),
        (rollback, "headwater views rollback app.py"),
        (discard, "headwater views discard app.py"),
    ):
        family.command(rich_help_panel=PANEL, epilog=examples(*lines))(command)
    app.add_typer(family, name="views")


def status(application: Application, *, as_json: Json = False) -> None:
    """Show which changed views are being built or wait for a decision."""
    with load(application) as app:
        found, heartbeat = app.candidate(), read_heartbeat(app.directory)
    told = None if heartbeat is None else heartbeat.about.get("build")
    build = BuildProgress(**told) if isinstance(told, dict) else None
    if as_json:
        print_json([{"candidate": None if found is None else found.to_json(), "build": told}])
        return
    if build is not None and build.error is not None:
        say(f"Building {', '.join(build.views)} failed: {build.error}")
    elif found is not None and not found.is_ready:
        say(f"{build_line(build)}." if build is not None else f"Building {', '.join(found.views)}.")
    elif found is not None:
        decision = "rollback brings them back, discard gives them up" if found.is_former else "switch, or discard them"
        kind = "Former" if found.is_former else "New"
        say(f"{kind} versions of {', '.join(found.views)} are up to date at position {found.position}: {decision}.")
    else:
        say("No views are being built or waiting for a decision.")


def diff(
    application: Application,
    view: ViewName,
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="COLUMN",
            help="The columns that match up rows; by default the view's key, or its first column.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", metavar="ROWS", min=0, help="Rows to show of each kind.")] = 5,
    as_json: Json = False,
) -> None:
    """Compare a view with its candidate, at one position of the log.

    A row is changed if its key has one row on both sides; otherwise it is removed or added. With --json, up to 20 rows
    of each kind are printed.
    """
    with load(application) as app:
        found = app.diff(view, key=key or (), samples=SAMPLES if as_json else samples)
    if as_json:
        print_json([found.to_json()])
        return
    _print_counts(found)
    for kind in ("removed", "added"):
        for row in found.samples[kind]:
            print_line(f"{'-' if kind == 'removed' else '+'} {'  '.join(f'{n}={readable(v)}' for n, v in row.items())}")
    result = "Both are equal" if found.is_equal else "They differ"
    say(f"{result} at position {found.position}: {found.rows_before:,} and {count(found.rows_after, 'row')}.")


def _print_counts(found: ViewDiff) -> None:
    rows = [("rows removed", found.removed), ("rows added", found.added), ("rows changed", found.changed)]
    rows += [(f"changed in {name}", changed) for name, changed in found.changed_by_column.items() if changed]
    print_table([Column(""), number("rows")], [(title, f"{amount:,}") for title, amount in rows])
    for title, names in (("removed", found.columns_removed), ("added", found.columns_added)):
        if names:
            say(f"Columns {title}: {', '.join(names)}. Only the others are compared.")


Wait = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0, help="Maximum wait.")]
_WAIT = DECISION.total_seconds()


def switch(application: Application, *, timeout: Wait = _WAIT, as_json: Json = False) -> None:
    """Let readers see the candidate: all changed views at once, at one position.

    The former versions are kept up to date for a rollback, until they are discarded or the application is run without
    --approve. If a process runs the application, it does the switch; otherwise this command does.
    """
    with load(application) as app:
        _say(app.switch(timeout=timedelta(seconds=timeout)), "Readers see the new versions of", as_json=as_json)


def rollback(application: Application, *, timeout: Wait = _WAIT, as_json: Json = False) -> None:
    """Let readers see the former versions again, which have been kept up to date since the switch."""
    with load(application) as app:
        _say(app.rollback(timeout=timedelta(seconds=timeout)), "Readers see the former versions of", as_json=as_json)


def discard(application: Application, *, timeout: Wait = _WAIT, as_json: Json = False) -> None:
    """Give up the candidate, or after a switch the former versions."""
    with load(application) as app:
        _say(app.discard(timeout=timedelta(seconds=timeout)), "Discarded the candidate for", as_json=as_json)


def _say(found: Candidate, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json([found.to_json()])
    else:
        say(f"{what} {', '.join(found.views)}.")
