"""`headwater log` seal, compact, retain, check and repair: what keeps a log small, fast and whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from headwater.cli.arguments import Directory, Json, TopicName, Yes, ask, examples, open_existing
from headwater.cli.failures import DAMAGED
from headwater.cli.output import Column, count, folding, hint, number, print_json, print_table, say, warn
from headwater.cli.progress import Bar
from headwater.cli.quantities import format_size, parse_size
from headwater.cli.topic_page import finding_json, offsets_of, segment_json
from headwater.log.maintenance import Finding, Maintenance
from headwater.log.port import Log

PANEL = "Maintenance"
NONE = "none"


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command, *lines in (
        (seal, "headwater log seal ./data orders"),
        (compact, "headwater log seal ./data customers", "headwater log compact ./data customers"),
        (retain, "headwater log retain ./data --bytes-max 10GiB"),
        (check, "headwater log check ./data"),
        (repair, "headwater log repair ./data", "headwater log repair ./data --apply --yes"),
    ):
        app.command(rich_help_panel=PANEL, epilog=examples(*lines))(command)


def seal(directory: Directory, topic: TopicName, *, as_json: Json = False) -> None:
    """Turn all records of a topic into Parquet now, and print the files for other tools to read."""
    with open_existing(directory) as log:
        files = log.maintenance
        before = {segment.file for segment in files.segments(topic)}
        files.seal(topic)
        segments = [segment for segment in files.segments(topic) if segment.state == "sealed"]
        locations = files.locations(topic)
    if as_json:
        found = zip(segments, locations, strict=True)
        print_json({**segment_json(segment), "file": location} for segment, location in found)
    else:
        for segment, location in zip(segments, locations, strict=True):
            typer.echo(str(directory / segment.file) if segment.local else location)
    new = [segment for segment in segments if segment.file not in before]
    say(f"Sealed {count(len(new), 'segment')}; topic {topic} has {count(len(segments), 'Parquet file')}.")


def compact(directory: Directory, topic: TopicName, *, as_json: Json = False) -> None:
    """Keep only the newest record of every key in sealed segments; for topics with cleanup=compact."""
    with open_existing(directory) as log:
        files = log.maintenance
        removed = files.compact(topic)
        unsealed = sum(segment.rows for segment in files.segments(topic) if segment.state != "sealed")
    if as_json:
        print_json([{"topic": topic, "removed": removed, "unsealed": unsealed}])
    else:
        say(f"Compacted {topic}: removed {count(removed, 'record')}.")
    if unsealed:
        hint(f"{count(unsealed, 'record')} not sealed yet: `headwater log seal {directory} {topic}` and compact again.")


def retain(
    directory: Directory,
    *,
    bytes_max: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Keep the entire log below this size from now on, such as 10GiB; none: no limit.",
        ),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Do a round of upkeep: seal complete segments, delete what exceeds the retention, compact where it pays off.

    --bytes-max is a permanent setting of the log: every later round respects it, even in the background.
    """
    limit = None if bytes_max is None or bytes_max == NONE else parse_size(bytes_max)
    with open_existing(directory) as log:
        files = log.maintenance
        if limit:
            _ask_to_delete(log, files, limit, yes=yes)
        if bytes_max is not None:
            files.set_max_bytes(limit)
            say("The log no longer has a size limit." if limit is None else _lasting(limit))
        report = files.upkeep()
        held = [segment for topic in log.topics() for segment in files.segments(topic.name)]
        cap, size = files.bytes_max, sum(segment.bytes for segment in held if segment.local)
    if as_json:
        print_json([{**asdict(report), "bytes": size, "bytes_max": cap}])
        return
    say(
        f"Sealed {count(report.sealed, 'segment')}, deleted {count(report.deleted_segments, 'segment')} with "
        f"{count(report.deleted_records, 'record')}, removed {count(report.compacted_records, 'record')} by "
        f"compaction, swept {count(report.swept_files, 'file')}."
    )
    if report.archived_segments or report.evicted_segments or report.removed_objects:
        evicted = count(report.evicted_segments, "local file")
        say(
            f"Archived {count(report.archived_segments, 'segment')}, removed {evicted} of archived ones, "
            f"removed {count(report.removed_objects, 'replaced object')} from archives."
        )
    if cap is not None and size > cap:
        say(
            f"The log still has {format_size(size)}, more than its limit of {format_size(cap)}. Not deleted are active "
            "segments, tables without their own retention, topics with a cleanup other than delete, and, for a while, "
            "what pipelines and groups have not read."
        )


def _lasting(limit: int) -> str:
    return f"From now on the log keeps at most {format_size(limit)}, until --bytes-max changes it or lifts it (none)."


def _ask_to_delete(log: Log, files: Maintenance, limit: int, *, yes: bool) -> None:
    """Asks if the limit costs records that are there now. Raises `Declined`."""
    topics = log.topics()
    deletable = {topic.id for topic in topics if topic.is_capped}
    held = [segment for topic in topics for segment in files.segments(topic.name) if segment.local]
    # The local files of archived segments go first, and cost nothing.
    segments = [segment for segment in held if segment.object is None]
    excess, doomed = sum(segment.bytes for segment in segments) - limit, 0
    for segment in sorted(segments, key=lambda each: (each.last_at, each.id)):
        if excess > 0 and segment.state != "active" and segment.topic_id in deletable:
            excess -= segment.bytes
            doomed += segment.rows
    if doomed:
        oldest = f"the oldest, about {count(doomed, 'record')}, go now"
        ask(f"{_lasting(limit)} To get there, {oldest}. Delete them for good?", yes=yes)


def check(directory: Directory, *, as_json: Json = False) -> None:
    """Read everything back and compare it with its checksums; exit code 4 if something is damaged."""
    with open_existing(directory) as log, Bar("Checking") as bar:
        segments = 0

        def watch(done: int, total: int) -> None:
            nonlocal segments
            segments = total
            bar(done, total, "segments")

        findings = list(log.maintenance.check(watch))
    _print_findings(findings, as_json=as_json)
    if findings:
        copies = "; copies are damaged of which another is sound" if any(not each.records for each in findings) else ""
        warn(f"The log is damaged: {_lost(findings)} cannot be read back{copies}.")
        hint(f"`headwater log repair {directory}` shows what can be saved.")
        raise typer.Exit(DAMAGED)
    say(f"Checked {count(segments, 'segment')}: no damage found.")


def repair(
    directory: Directory,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Save what can be read, and discard the rest for good.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Show what a repair would lose; --apply carries it out.

    Damaged files are kept in the log's folder `damaged`. Exit code 4 if there is damage that was not repaired.
    """
    with open_existing(directory) as log:
        with Bar("Checking") as bar:
            plan = log.maintenance.repair(lambda done, total: bar(done, total, "segments"))
        losses, saved, copies = plan.losses, plan.saved, plan.copies
        _print_findings([*plan.beyond, *copies, *losses], as_json=as_json)
        if not losses and not copies and plan.beyond:
            say("The catalog itself is damaged, and a repair cannot fix that.")
            hint("Restore the log's directory from a backup.")
            raise typer.Exit(DAMAGED)
        if not losses and not copies:
            say("There is nothing to repair.")
            return
        if copies:
            say(f"A repair replaces a damaged copy of {count(len(copies), 'segment')} with the intact one.")
        if losses:
            say(f"A repair saves {count(saved, 'record')} of the damaged segments and loses {_lost(losses)}.")
        if not apply:
            hint(f"`headwater log repair {directory} --apply` does it.")
            raise typer.Exit(DAMAGED)
        if losses:
            ask("Discard what cannot be read?", yes=yes)
        plan.apply()
    say(f"Repaired. The damaged files are in {directory / 'damaged'}.")


def _print_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    if as_json:
        print_json(finding_json(finding) for finding in findings)
    elif findings:
        columns = [Column("topic"), number("partition"), Column("offsets"), number("records")]
        columns += [folding("segment"), folding("reason")]
        print_table(columns, [_finding_row(finding) for finding in findings])


def _finding_row(finding: Finding) -> tuple[str, ...]:
    return (
        finding.topic or "-",
        str(finding.partition),
        offsets_of(finding),
        f"{finding.records:,}",
        finding.segment,
        finding.reason,
    )


def _lost(findings: Sequence[Finding]) -> str:
    """Some of the offsets may have had no record any more, where a topic was compacted."""
    return "at most " + count(sum(finding.records for finding in findings), "record")
