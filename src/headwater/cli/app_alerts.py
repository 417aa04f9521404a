"""`headwater alerts`: what fires, what has happened lately, and how the receivers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headwater.cli.app_argument import PANEL, Application
from headwater.cli.arguments import Json, examples
from headwater.cli.failures import ALARM
from headwater.cli.output import Column, alarm, count, folding, number, print_json, print_table, say
from headwater.cli.quantities import format_age
from headwater.engine.sinks.channel import dumps
from headwater.loading import load

RECENT_DEFAULT = 20


def register(app: typer.Typer) -> None:
    """Adds the command."""
    lines = ("headwater alerts app.py", "headwater alerts app.py --json", "headwater alerts app.py --fail-if-firing")
    app.command(rich_help_panel=PANEL, epilog=examples(*lines))(alerts)


def alerts(
    application: Application,
    *,
    recent: Annotated[
        int, typer.Option(min=0, metavar="N", help="The number of newest records in the history to show.")
    ] = RECENT_DEFAULT,
    fail_if_firing: Annotated[
        bool, typer.Option("--fail-if-firing", help=f"Exit with code {ALARM} if an alert fires.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List an application's alerts: the ones that are firing, the newest in the history, and their receivers."""
    with load(application) as app:
        found: dict[str, Any] = app.list_alerts(recent)
    if as_json:
        print_json([found])
    elif not found["alerts"]:
        say("The application has no alerts.")
    else:
        _print(found["alerts"], found["firing"], found["recent"])
    if fail_if_firing and found["firing"]:
        alarm(f"{count(len(found['firing']), 'alert')} firing.")
        raise typer.Exit(ALARM)


def _print(
    declared: Sequence[Mapping[str, Any]], firing: Sequence[Mapping[str, Any]], recent: Sequence[Mapping[str, Any]]
) -> None:
    now = datetime.now(UTC)
    rows = [(one["name"], one["view"], f"{one['firing']:,}", _receivers(one["receivers"])) for one in declared]
    print_table([Column("alert"), Column("view"), number("firing"), folding("receivers")], rows)
    if firing:
        say("")
        say(f"{count(len(firing), 'alert')} firing:")
        lines = [(one["alert"], one["key"], _ago(one["fired_at"], now), dumps(one["row"])) for one in firing]
        print_table([Column("alert"), Column("key"), number("fired"), folding("row")], lines)
    if recent:
        say("")
        say("Newest in the history:")
        lines = [(one["at"], one["alert"], one["key"], one["event"]) for one in recent]
        print_table([Column("at"), Column("alert"), Column("key"), Column("event")], lines)


def _receivers(receivers: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{one['kind']} {one['address']}: {one['status']}" + (f" ({one['error']})" if one["error"] else "")
        for one in receivers
    )


def _ago(instant: str, now: datetime) -> str:
    return f"{format_age((now - datetime.fromisoformat(instant)).total_seconds())} ago"
