"""`headwater log groups` and `headwater log lag`: who reads a log, how far behind they are, and how they are moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from headwater.cli.arguments import Directory, Json, Yes, ask, examples, open_existing
from headwater.cli.failures import ALARM
from headwater.cli.output import Column, alarm, count, folding, number, print_json, print_table, say
from headwater.cli.places import parse_start
from headwater.cli.quantities import format_age, format_size, parse_size
from headwater.errors import UnknownFollower, UnknownGroup, UsageError
from headwater.log.groups import OffsetReset
from headwater.log.lag import RISK_ALARM, Lag, LagLimits
from headwater.log.port import Start
from headwater.model.durations import parse_duration

PANEL = "Groups"


GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.", show_default=False)]
Force = Annotated[
    bool, typer.Option("--force", help="Even if it has active members; their uncommitted work is refused.")
]


def register(app: typer.Typer) -> None:
    """Adds the command for lag."""
    app.command(
        rich_help_panel=PANEL,
        epilog=examples("headwater log lag ./data --alarm-records 100000 --alarm-age 5m"),
    )(lag)
    app.command(rich_help_panel=PANEL, epilog=examples("headwater log release ./data shop/1 --yes"))(release)


def register_groups(app: typer.Typer) -> None:
    """Adds the commands of `headwater log groups`."""
    app.command("list", rich_help_panel=PANEL, epilog=examples("headwater log groups list ./data"))(list_groups)
    app.command(rich_help_panel=PANEL, epilog=examples("headwater log groups show ./data billing"))(show)
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            "headwater log groups reset ./data billing --to earliest --dry-run",
            "headwater log groups reset ./data billing --to 2026-01-31T12:00:00Z --yes",
            "headwater log groups reset ./data billing --to 0 --topic orders --partition 0 --yes",
        ),
    )(reset)
    app.command(rich_help_panel=PANEL, epilog=examples("headwater log groups delete ./data billing --yes"))(delete)


def list_groups(directory: Directory, *, as_json: Json = False) -> None:
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


def show(directory: Directory, group: GroupName, *, as_json: Json = False) -> None:
    """Show a group: its active members, and its offset in each partition."""
    with open_existing(directory) as log:
        members, lags = log.members(group), log.lag(group)
    if as_json:
        shown = [{**asdict(member), "lease_left": member.lease_left.total_seconds()} for member in members]
        print_json([{"group": group, "members": shown, "partitions": [asdict(each) for each in lags]}])
        return
    say("The group has no active members." if not members else f"{count(len(members), 'active member')}:")
    if members:
        rows = [
            (each.name, ", ".join(each.topics) or "-", format_age(each.lease_left.total_seconds())) for each in members
        ]
        print_table([folding("member"), folding("topics"), number("lease")], rows)
    _print_lags(lags)


def reset(
    directory: Directory,
    group: GroupName,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="Where to continue: earliest, latest, an offset (42), a time of receipt (2026-01-31T12:00:00Z, UTC if "
            "it has no zone), how long ago (10m), or after a position (position:42).",
            show_default=False,
        ),
    ],
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Only in this topic; repeat for more. By default in all.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only in this partition: for an offset in one topic.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the old and the new offsets, and change nothing.")
    ] = False,
    force: Force = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move a group to another place. Its consumers continue from there."""
    target = _target(to, partition)
    with open_existing(directory) as log:
        moves = log.reset_group(group, target, topics=topic, dry_run=True)
        if not dry_run:
            if not (yes or as_json):
                _print_moves(moves)
            ask(f"Move group {group} in {count(len(moves), 'partition')}?", yes=yes)
            moves = log.reset_group(group, target, topics=topic, force=force)
    if as_json:
        print_json(asdict(move) for move in moves)
    elif yes or dry_run:
        _print_moves(moves)
    say("Nothing was changed: this was a dry run." if dry_run else f"Group {group} continues from there.")


def delete(directory: Directory, group: GroupName, *, force: Force = False, yes: Yes = False) -> None:
    """Delete a group and its offsets. A consumer with that name recreates it."""
    with open_existing(directory) as log:
        lags = log.lag(group)
        read = ", ".join(sorted({each.topic for each in lags})) or "nothing"
        ask(f"Group {group} reads {read}. Delete its offsets for good?", yes=yes)
        log.delete_group(group, force=force)
    say(f"Deleted group {group}.")


def _target(text: str, partition: int | None) -> Start:
    target = parse_start(text)
    if partition is None:
        return target
    if not isinstance(target, int):
        raise UsageError("--partition needs an offset.", hint="Leave it out, or write an offset: --to 42.")
    return {partition: target}


def _print_moves(moves: Sequence[OffsetReset]) -> None:
    columns = [Column("topic"), number("partition"), number("from"), number("to"), folding("records")]
    print_table(columns, [_move_row(move) for move in moves])


def _move_row(move: OffsetReset) -> tuple[str, ...]:
    moved = move.after - (move.before or 0)
    effect = "-" if not moved else f"{-moved:,} again" if moved < 0 else f"{moved:,} skipped"
    before = "-" if move.before is None else str(move.before)
    return move.topic, str(move.partition), before, str(move.after), effect


def lag(
    directory: Directory,
    group: Annotated[
        str | None,
        typer.Argument(metavar="FOLLOWER", help="One group or pipeline; all by default.", show_default=False),
    ] = None,
    *,
    alarm_records: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Alarm if a partition is behind by more records than this.")
    ] = None,
    alarm_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Alarm if a partition is behind by more bytes than this, such as 1GiB."),
    ] = None,
    alarm_age: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Alarm if the oldest unread record is older than this, such as 5m."),
    ] = None,
    alarm_risk: Annotated[
        str,
        typer.Option(metavar="PART", help="Alarm if lag has used up this much of the retention: 80% or 0.8."),
    ] = f"{RISK_ALARM:.0%}",
    as_json: Json = False,
) -> None:
    """Show how far groups and pipelines are behind, by partition; exit code 3 if that is past a limit.

    What they have not read is not deleted, up to the topic's --hold-age-max and --hold-bytes-max; "held" is what
    retention would have deleted by its age. Records that were deleted anyway always raise an alarm. A
    follower that no longer exists is removed by `headwater log release`.
    """
    limits = LagLimits(
        alarm_records,
        None if alarm_bytes is None else parse_size(alarm_bytes),
        None if alarm_age is None else parse_duration(alarm_age),
        _part(alarm_risk),
    )
    with open_existing(directory) as log:
        lags = [] if group is not None and group not in log.groups() else log.lag(group)
        lags += [each for each in log.followers.lag() if group in (None, each.group)]
        if group is not None and not lags:
            raise UnknownGroup(group)
    if as_json:
        print_json({**asdict(each), "alarms": each.alarms(limits)} for each in lags)
    elif not lags:
        say("The log has no followers yet: neither consumer groups nor pipelines.")
    else:
        _print_lags(lags)
    alarms = [(each, reason) for each in lags for reason in each.alarms(limits)]
    for each, reason in alarms:
        alarm(f"{each.kind} {each.group}, topic {each.topic}, partition {each.partition}: {reason}")
    if alarms:
        raise typer.Exit(ALARM)


def release(
    directory: Directory,
    follower: Annotated[
        str, typer.Argument(metavar="FOLLOWER", help="The follower's name, as `headwater log lag` shows it.")
    ],
    *,
    yes: Yes = False,
) -> None:
    """Remove a follower that no longer exists, so that nothing is kept for it.

    A running pipeline registers again by itself. Consumer groups are deleted by `headwater log groups delete`.
    """
    with open_existing(directory) as log:
        found = log.followers.find(follower)
        if found is None:
            raise UnknownFollower(follower, [one.name for one in log.followers.all() if one.kind != "group"])
        ask(f"{found.kind.capitalize()} {follower} reads {', '.join(found.since) or 'nothing'}. Remove it?", yes=yes)
        log.followers.release([follower])
    say(f"Nothing is kept for {follower} anymore.")


def _print_lags(lags: Sequence[Lag]) -> None:
    columns = [
        Column("follower"),
        Column("kind"),
        Column("topic"),
        number("partition"),
        number("offset"),
        number("end"),
    ]
    columns += [number("behind"), number("bytes"), number("age"), number("held"), number("risk")]
    columns.append(folding("member"))
    print_table(columns, [_lag_row(each) for each in lags])


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
        each.kind,
        each.topic,
        str(each.partition),
        str(each.offset),
        str(each.end),
        f"{each.records:,}",
        format_size(each.bytes),
        format_age(each.seconds),
        format_size(each.held),
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
        raise UsageError(f"{text!r} is not a share of the retention.", hint="Write it as 80% or 0.8.")
    if part > 1 and not percent:
        raise UsageError(f"{text} is more than all of the retention.", hint=f"Write {text}% if you mean percent.")
    return part
