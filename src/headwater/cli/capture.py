"""`headwater capture`: brings the tables of databases into the log, and shows how that goes."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headwater.app import App
from headwater.cli.app_argument import Application
from headwater.cli.arguments import Json, Yes, ask, examples
from headwater.cli.ending import Ending
from headwater.cli.failures import ALARM, FAILED
from headwater.cli.families import Family
from headwater.cli.output import (
    Column,
    alarm,
    complain,
    count,
    folding,
    print_json,
    print_line,
    print_table,
    say,
)
from headwater.cli.progress import Bar
from headwater.cli.quantities import format_age, format_size
from headwater.cli.showing import Showing
from headwater.engine.running import Runner
from headwater.engine.sources import DatabaseSource, Source
from headwater.errors import UsageError
from headwater.loading import load

PANEL = "Capture"
KEYS_SHOWN_MAX = 10
LOOK_SECONDS = 0.2

SourceName = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="The source, if the application has several.")
]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="The table, or its topic.", show_default=False)]


class CaptureFamily(Family):
    """`headwater capture app.py` is `headwater capture run app.py`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return list(super().parse_args(ctx, args))


def register(app: typer.Typer) -> None:
    """Adds the family."""
    family = typer.Typer(
        cls=CaptureFamily,
        no_args_is_help=True,
        help="Bring the tables of databases into the log. `headwater capture app.py` runs it.",
    )
    for command, *lines in (
        (run, "headwater capture run app.py", "headwater capture app.py"),
        (check, "headwater capture check app.py"),
        (status, "headwater capture status app.py --json"),
        (
            snapshot,
            "headwater capture snapshot app.py orders",
            "headwater capture snapshot app.py orders --where 'id<9'",
        ),
        (pause, "headwater capture pause app.py"),
        (resume, "headwater capture resume app.py", "headwater capture resume app.py orders"),
        (audit, "headwater capture audit app.py", "headwater capture audit app.py --repair"),
        (drop, "headwater capture drop app.py --yes"),
    ):
        family.command(rich_help_panel=PANEL, epilog=examples(*lines))(command)
    app.add_typer(family, name="capture")


def run(application: Application) -> None:
    """Bring the tables of the application's databases into the log, until Ctrl-C; `headwater run` does so, too.

    The first run checks the database, creates a publication and a replication slot, and reads all tables. Whatever
    ends it, the next run continues where it was.
    """
    with load(application, "create") as app, Ending() as ending:
        _check_sources(app)
        with Bar("Reading tables") as bar:
            showing = Showing(bar)
            with Runner(app.sources.values(), showing) as runner, ending.patient():
                while runner.is_working() and not ending.asked:
                    time.sleep(LOOK_SECONDS)
    if showing.code is not None:
        raise typer.Exit(showing.code)


def check(application: Application, *, source: SourceName = None) -> None:
    """Check whether the databases can be captured; makes no changes. Missing settings come with the SQL to fix them."""
    with load(application, "stand_in") as app:
        for each in _sources(app, source):
            say(f"{each.address} can be captured: {count(len(each.check()), 'table')}.")


def status(application: Application, *, source: SourceName = None, as_json: Json = False) -> None:
    """Show how far each source is, and what the database keeps for it; exit code 3 if there is an alarm."""
    alarms: list[str] = []
    with load(application) as app:
        for each in _sources(app, source):
            found = each.status()
            alarms += [f"source {found.source}: {text}" for text in found.alarms]
            if as_json:
                print_json([{**asdict(found), "details": dict(found.details)}])
                continue
            state = "paused" if found.paused else found.phase
            details = "".join(f", {what} {text}" for what, text in found.details)
            print_line((found.source, "bold"), f"  {found.address}  {state}{details}")
            behind = f"{_size(found.bytes_behind)} and {format_age(found.seconds_behind or 0)} behind"
            print_line(f"  captured up to {found.position}, {behind}; it keeps {_size(found.bytes_retained)} for it")
            if found.blocks_total:
                print_line(f"  first snapshot: {found.blocks_read:,} of {found.blocks_total:,} blocks read")
            rows = [(table.name, table.topic, table.state, table.reason or "") for table in found.tables]
            print_table([Column("table"), Column("topic"), Column("state"), folding("reason")], rows, indent=4)
    for text in alarms:
        alarm(text)
    if alarms:
        raise typer.Exit(ALARM)


def snapshot(
    application: Application,
    table: TableName,
    *,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="Only rows that match this condition.")] = None,
    source: SourceName = None,
) -> None:
    """Re-read a table while changes flow, in the process that captures. Nothing newer is overwritten."""
    with load(application) as app:
        _one(app, source).snapshot(table, where=where)
        say(f"Requested a snapshot of {table}; `headwater capture status` shows when it is done.")


def pause(application: Application, *, source: SourceName = None) -> None:
    """Pause capture, in whichever process it runs. Until it resumes, the database retains its changes."""
    with load(application) as app:
        _one(app, source).pause()


def resume(
    application: Application,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="A stopped table, to be re-read.", show_default=False)
    ] = None,
    *,
    source: SourceName = None,
) -> None:
    """Resume capture after a pause, or resume a table that was stopped."""
    with load(application) as app:
        _one(app, source).resume(table)


def audit(
    application: Application,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Re-read the rows that differ.")] = False,
    source: SourceName = None,
    as_json: Json = False,
) -> None:
    """Compare each table with its topic, row by row, at one place in the WAL; exit code 1 if they differ."""
    with load(application) as app, Bar("Comparing") as bar:
        found = _one(app, source).audit(Showing(bar), repair=repair)
    for each in found:
        if as_json:
            print_json([json.loads(json.dumps({**asdict(each), "equal": each.equal}, default=str))])
            continue
        verdict = "equal" if each.equal else "differs"
        rows = f"{each.rows_in_source:,} rows, checksum {each.checksum_of_source}"
        print_line((each.table, "bold"), f"  {verdict} at {each.place}: {rows}; log {each.checksum_of_log}")
        for kind, keys in (("missing", each.missing), ("different", each.different), ("extra", each.extra)):
            if keys:
                shown = ", ".join(str(key) for key in keys[:KEYS_SHOWN_MAX])
                more = f" and {len(keys) - KEYS_SHOWN_MAX:,} more" if len(keys) > KEYS_SHOWN_MAX else ""
                print_line(f"  {kind} in the log: {shown}{more}")
    wrong = [each.table for each in found if not each.equal]
    if wrong:
        complain(f"{', '.join(wrong)}: {'differing rows will be re-read' if repair else 'log and database differ'}.")
        raise typer.Exit(FAILED)


def drop(application: Application, *, source: SourceName = None, yes: Yes = False) -> None:
    """Remove the replication slot and the publications from the database. Topics and their records stay."""
    with load(application) as app:
        chosen = _one(app, source)
        ask(f"Remove what headwater created in {chosen.address}?", yes=yes)
        chosen.drop(Showing())


def _size(size: int | None) -> str:
    return "an unknown size" if size is None else format_size(size)


def _sources(app: App, name: str | None) -> list[Source]:
    _check_sources(app)
    if name is None:
        return list(app.sources.values())
    if name not in app.sources:
        raise UsageError(f"The application has no source {name!r}.", hint=f"It has: {', '.join(app.sources)}.")
    return [app.sources[name]]


def _one(app: App, name: str | None) -> DatabaseSource:
    found = _sources(app, name)
    if len(found) > 1:
        raise UsageError("The application has several sources.", hint=f"Name one: --source {found[0].home.name}.")
    only = found[0]
    if not isinstance(only, DatabaseSource):
        raise UsageError(f"Source {only.home.name!r} has no tables to work on: it is a {only.kind} source.")
    return only


def _check_sources(app: App) -> None:
    if not app.sources:
        raise UsageError(
            "This application captures no database.",
            hint='Give it a source: app.postgres("postgresql://…", tables=["orders"]).',
        )
