"""`headwater log` groups and lag: who reads a log, and how far behind they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from headwater.cli.arguments import Directory, Json, examples, open_existing
from headwater.cli.failures import ALARM
from headwater.cli.output import Column, alarm, folding, number, print_json, print_table, say
from headwater.cli.quantities import format_age, format_size, parse_size
from headwater.errors import UsageError
from headwater.log.lag import RISK_ALARM, Lag, LagLimits
from headwater.model.durations import parse_duration

PANEL = "Groups"


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(rich_help_panel=PANEL, epilog=examples("headwater log groups ./data"))(groups)
    app.command(
        rich_help_panel=PANEL,
        epilog=examples("headwater log lag ./data --alarm-records 100000 --alarm-age 5m"),
    )(lag)


def groups(directory: Directory, *, as_json: Json = False) -> None:
    """List the consumer groups of a log."""
    with open_existing(directory) as log:
        lags = log.lag()
        found = [_summary(name, [each for each in lags if each.group == name]) for name in log.groups()]
    if as_json:
        print_json(found)
    elif not found:
        say("The log has no consumer groups yet.")
    else:
        columns = [Column("group"), folding("topics"), number("partitions"), number("members"), number("behind")]
        print_table([*columns, number("bytes")], [_group_row(summary) for summary in found])


def lag(
    directory: Directory,
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="One group; otherwise all.", show_default=False)
    ] = None,
    *,
    alarm_records: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Alarm if a partition is more records behind.")
    ] = None,
    alarm_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Alarm if a partition is more bytes behind, such as 1GiB.")
    ] = None,
    alarm_age: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Alarm if the oldest unread record is older, such as 5m.")
    ] = None,
    alarm_risk: Annotated[
        str,
        typer.Option(metavar="PART", help="Alarm if so much of the retention is used up by being late: 80% or 0.8."),
    ] = f"{RISK_ALARM:.0%}",
    as_json: Json = False,
) -> None:
    """Show how far each group is behind, by partition; exit code 3 if that is past a limit.

    Records that were deleted before a group read them raise an alarm in any case.
    """
    limits = LagLimits(
        alarm_records,
        None if alarm_bytes is None else parse_size(alarm_bytes),
        None if alarm_age is None else parse_duration(alarm_age),
        _part(alarm_risk),
    )
    with open_existing(directory) as log:
        lags = log.lag(group)
    if as_json:
        print_json({**asdict(each), "alarms": each.alarms(limits)} for each in lags)
    elif not lags:
        say("The log has no consumer groups yet.")
    else:
        columns = [Column("group"), Column("topic"), number("partition"), number("offset"), number("end")]
        columns += [number("behind"), number("bytes"), number("age"), number("risk"), folding("member")]
        print_table(columns, [_lag_row(each) for each in lags])
    alarms = [(each, reason) for each in lags for reason in each.alarms(limits)]
    for each, reason in alarms:
        alarm(f"group {each.group}, topic {each.topic}, partition {each.partition}: {reason}")
    if alarms:
        raise typer.Exit(ALARM)


def _summary(name: str, lags: Sequence[Lag]) -> dict[str, object]:
    return {
        "group": name,
        "topics": sorted({each.topic for each in lags}),
        "partitions": len(lags),
        "members": sorted({each.member for each in lags if each.member is not None}),
        "records": sum(each.records for each in lags),
        "bytes": sum(each.bytes for each in lags),
        "gone": sum(each.gone for each in lags),
    }


def _group_row(summary: dict[str, object]) -> tuple[str, ...]:
    topics, members, size = summary["topics"], summary["members"], summary["bytes"]
    assert isinstance(topics, list)
    assert isinstance(members, list)
    assert isinstance(size, int)
    partitions, behind = str(summary["partitions"]), f"{summary['records']:,}"
    return str(summary["group"]), ", ".join(topics) or "-", partitions, str(len(members)), behind, format_size(size)


def _lag_row(each: Lag) -> tuple[str, ...]:
    return (
        each.group,
        each.topic,
        str(each.partition),
        str(each.offset),
        str(each.end),
        f"{each.records:,}",
        format_size(each.bytes),
        format_age(each.seconds),
        "-" if each.risk is None else f"{each.risk:.0%}",
        each.member or "-",
    )


def _part(text: str) -> float:
    number_text, percent = text.removesuffix("%"), text.endswith("%")
    try:
        part = float(number_text) / (100 if percent else 1)
    except ValueError:
        part = -1.0
    if not 0 < part < float("inf"):
        raise UsageError(f"{text!r} is not a part of the retention.", hint="Write it as 80% or 0.8.")
    if part > 1 and not percent:
        raise UsageError(f"{text} is more than the whole retention.", hint=f"Write {text}% if you mean percent.")
    return part
