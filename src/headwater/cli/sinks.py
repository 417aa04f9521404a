"""`headwater sink`: the sinks of an application, how far they are, and whether their targets are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headwater.app import App
from headwater.cli.app_argument import Application
from headwater.cli.arguments import Json, Yes, ask, examples
from headwater.cli.failures import ALARM, FAILED
from headwater.cli.families import Family
from headwater.cli.output import (
    Column,
    alarm,
    complain,
    count,
    folding,
    hint,
    number,
    print_json,
    print_line,
    print_table,
    say,
)
from headwater.cli.progress import Bar
from headwater.cli.quantities import format_age
from headwater.cli.showing import Showing
from headwater.engine.sinks.audit import Keys, SinkAudit
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.port import SinkStatus
from headwater.engine.sinks.waiting import found
from headwater.errors import UsageError
from headwater.loading import load

PANEL = "Sinks"
KEYS_SHOWN_MAX = 10

SinkName = Annotated[str, typer.Argument(metavar="NAME", help="The sink's name.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Adds the family."""
    family = typer.Typer(
        cls=Family,
        no_args_is_help=True,
        help="List the sinks of an application, check progress, pause, resume, audit, repair, reset and drop them.",
    )
    family.command("list", rich_help_panel=PANEL, epilog=examples("headwater sink list app.py"))(list_sinks)
    for command, *lines in (
        (status, "headwater sink status app.py", "headwater sink status app.py search --json"),
        (pause, "headwater sink pause app.py search"),
        (resume, "headwater sink resume app.py search"),
        (audit, "headwater sink audit app.py search", "headwater sink audit app.py search --repair"),
        (reset, "headwater sink reset app.py search --yes"),
        (drop, "headwater sink drop app.py search --yes"),
    ):
        family.command(rich_help_panel=PANEL, epilog=examples(*lines))(command)
    app.add_typer(family, name="sink")


def list_sinks(application: Application, *, as_json: Json = False) -> None:
    """List the sinks, and how far each has got."""
    with load(application) as app:
        states = {name: feed.status() for name, feed in app.sinks.items()}
    if as_json:
        print_json({"name": name, **asdict(state)} for name, state in states.items())
        return
    if not states:
        say("The application has no sinks.")
        hint('Declare one: app.sink("report", view="revenue", to=hw.sinks.Postgres(…), key="country").')
        return
    columns = [Column("sink"), folding("view"), folding("target"), Column("status"), number("position")]
    rows = [
        (name, state.view, state.target, state.status, state.position or "-", *_behind(state))
        for name, state in states.items()
    ]
    print_table([*columns, number("rows behind"), number("behind")], rows)


def status(
    application: Application,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this sink.", show_default=False)] = None,
    *,
    as_json: Json = False,
) -> None:
    """Show the sinks' positions, speeds and errors; exit code 3 if one is retrying or has given up."""
    alarms = []
    with load(application) as app:
        for sink, feed in _chosen(app, name).items():
            state, paused = feed.status(), feed.control.is_paused
            if state.error is not None and state.status != "running":
                alarms.append(f"sink {sink}: {state.error}")
            if as_json:
                print_json([{"name": sink, **asdict(state), "paused": paused}])
            else:
                _print_status(sink, state)
    for text in alarms:
        alarm(text)
    if alarms:
        hint("`headwater sink resume` tries at once; a problem with the target must be fixed there.")
        raise typer.Exit(ALARM)


def pause(application: Application, name: SinkName) -> None:
    """Pause a sink, in whichever process it runs, until it is resumed. Its changes are kept."""
    with _sink(application, name) as feed:
        feed.pause()
        say(f"Sink {name} is paused. `headwater sink resume` ends that.")


def resume(application: Application, name: SinkName) -> None:
    """Resume a sink that was paused, or that gave up because its target failed for too long."""
    with _sink(application, name) as feed:
        feed.resume()
        say(f"Sink {name} continues where its target is.")


def audit(
    application: Application,
    name: SinkName,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Repair exactly the rows that differ.")] = False,
    as_json: Json = False,
) -> None:
    """Compare a target with its view, row by row, at one position; exit code 1 if they differ.

    The process that runs the application does it between two deliveries; if none does, this command does it. Rows that
    the target has refused are counted, but not as differences: they are dead letters.
    """
    with _sink(application, name) as feed, Bar("Comparing") as bar:
        made = feed.audit(repair=repair, report=Showing(bar))
    if as_json:
        print_json([{**asdict(made), "equal": made.equal}])
    else:
        _print_audit(made)
    if not made.equal and not made.repaired:
        complain(f"Sink {name}: target and view still differ." if repair else f"Sink {name}: target and view differ.")
        if not repair:
            hint(f"`headwater sink audit {application} {name} --repair` repairs exactly these rows.")
        raise typer.Exit(FAILED)
    if made.repaired:
        say("Repaired: target and view are equal now.")


def reset(application: Application, name: SinkName, *, yes: Yes = False) -> None:
    """Deliver the content of the view again, whatever the target has. A webhook continues with later changes."""
    with _sink(application, name) as feed:
        ask(f"Deliver the content of view {feed.view} to {feed.sink.target} again?", yes=yes)
        feed.reset()
        say(f"Sink {name} starts over.")


def drop(application: Application, name: SinkName, *, yes: Yes = False) -> None:
    """Remove what headwater keeps in a target next to the rows, and pause the sink. The rows stay."""
    with _sink(application, name) as feed:
        ask(f"Forget the position of {feed.sink.target}? Its rows stay, and belong to no sink.", yes=yes)
        feed.drop()
        say(f"Sink {name} is dropped. Remove it from the application; `headwater sink resume` would start it again.")


@contextmanager
def _sink(application: str, name: str) -> Iterator[Feed]:
    with load(application) as app:
        yield found(app.sinks, name)


def _chosen(app: App, name: str | None) -> Mapping[str, Feed]:
    if not app.sinks:
        raise UsageError(
            "This application has no sinks.",
            hint='Declare one: app.sink("report", view="revenue", to=hw.sinks.Postgres(…), key="country").',
        )
    return app.sinks if name is None else {name: found(app.sinks, name)}


def _behind(state: SinkStatus) -> tuple[str, str]:
    lag = "-" if state.lag is None else f"{state.lag:,}"
    return lag, "-" if state.lag_seconds is None else format_age(state.lag_seconds)


def _print_status(name: str, state: SinkStatus) -> None:
    print_line((name, "bold"), f"  {state.view} to {state.target}  {state.status}")
    if state.position is None:
        print_line("  the target does not have the first content yet")
    else:
        rows, age = _behind(state)
        print_line(f"  at position {state.position}, {rows} rows and {age} behind, {state.rows_per_second:,.0f} rows/s")
    if state.total:
        print_line(f"  {state.done:,} of {state.total:,} rows of a long delivery have arrived")
    print_line(f"  {count(state.rows, 'row')} delivered so far, the last at {state.delivered_at or '-'}")
    if state.error is not None:
        print_line(f"  failed at {state.failed_at}: {state.error}")


def _print_audit(made: SinkAudit) -> None:
    verdict = "equal" if made.equal else "differs"
    rows = f"{count(made.rows_in_view, 'row')}, checksum {made.checksum_of_view}"
    there = f"target {count(made.rows_in_target, 'row')}, checksum {made.checksum_of_target}"
    print_line((made.sink, "bold"), f"  {verdict} at position {made.position}: {rows}; {there}")
    for kind, keys in (("missing", made.missing), ("different", made.different), ("extra", made.extra)):
        if keys.count:
            print_line(f"  {kind} in the target: {_shown(keys)}")
    if made.refused:
        print_line(f"  {count(made.refused, 'row')} refused by the target: see the dead letters")


def _shown(keys: Keys) -> str:
    shown = ", ".join(_key(each) for each in keys.named[:KEYS_SHOWN_MAX])
    return f"{shown} and {keys.count - KEYS_SHOWN_MAX:,} more" if keys.count > KEYS_SHOWN_MAX else shown


def _key(key: Mapping[str, Any]) -> str:
    return str(next(iter(key.values()))) if len(key) == 1 else "(" + ", ".join(f"{n}={v}" for n, v in key.items()) + ")"
