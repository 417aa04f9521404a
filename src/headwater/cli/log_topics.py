"""`headwater log` init, topics, create, describe, alter and drop: a log and its topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from headwater.cli.arguments import Directory, Json, TopicName, Yes, ask, check_no_file, examples, open_existing
from headwater.cli.holdings import holdings
from headwater.cli.output import Column, count, folding, hint, number, print_json, print_table, say
from headwater.cli.quantities import format_size
from headwater.cli.topic_page import page_of, print_page
from headwater.cli.topic_settings import (
    Archive,
    Cleanup,
    DeadLetter,
    HoldAgeMax,
    HoldBytesMax,
    RetentionAge,
    RetentionBytes,
    SegmentAgeMax,
    SegmentBytesMax,
    TombstoneGrace,
    Views,
    settings_given,
)
from headwater.errors import Determinate, StorageFailed, UsageError
from headwater.log.opening import open_log
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.ddl import format_ddl
from headwater.model.durations import format_duration

PANEL = "Topics"


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(rich_help_panel=PANEL, epilog=examples("headwater log init ./data"))(init)
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            'headwater log create ./data orders "id bigint, amount decimal(12,2), at timestamp" \\',
            "    --key id --partitions 4 --event-time at --retention-age 7d --dead-letter orders.dead",
            'headwater log create ./data customers "id bigint, name string" --key id --cleanup compact',
            'headwater log create ./data clicks "user_id bigint, url string" --partitions 4 --partition-by user_id',
            'headwater log create ./data visits "url string" --archive ./archive --retention-age 7d',
        ),
    )(create)
    app.command(rich_help_panel=PANEL, epilog=examples("headwater log topics ./data"))(topics)
    app.command(rich_help_panel=PANEL, epilog=examples("headwater log describe ./data orders"))(describe)
    app.command(
        rich_help_panel=PANEL,
        epilog=examples('headwater log alter ./data orders --add-column "note string" --retention-bytes 1GiB'),
    )(alter)
    app.command(
        rich_help_panel=PANEL,
        epilog=examples('headwater log create ./data scratch "line string"', "headwater log drop ./data scratch --yes"),
    )(drop)


def init(directory: Directory) -> None:
    """Create a log in a directory that is empty or does not exist."""
    check_no_file(directory)
    existed = (directory / "catalog.db").exists()
    try:
        open_log(directory, upkeep=False).close()
    except StorageFailed as error:
        if directory.exists():
            raise
        raise Determinate(
            f"The directory {directory} cannot be created: {error.reason}.",
            hint="Name a directory that you may write to.",
        ) from error
    say(f"There is a log in {directory} already." if existed else f"Created a log in {directory}.")
    if not existed:
        hint(f'`headwater log create {directory} orders "id bigint, amount double" --key id` makes a topic in it.')


def topics(directory: Directory, *, as_json: Json = False) -> None:
    """List the topics of a log."""
    with open_existing(directory) as log:
        found = [(topic, holdings(log, topic.name)) for topic in log.topics()]
        cap = log.maintenance.bytes_max
    sums = [(topic, sum(h.records for h in held), sum(h.bytes for h in held)) for topic, held in found]
    if as_json:
        print_json(
            {**topic.describe(), "records": records, "bytes": size, "log_bytes_max": cap}
            for topic, records, size in sums
        )
        return
    if cap is not None:
        say(f"The log keeps at most {format_size(cap)} in total: `headwater log retain --bytes-max` changes that.")
    if not sums:
        say("The log has no topics yet.")
        hint(f'`headwater log create {directory} orders "id bigint, amount double" --key id` creates one.')
        return
    print_table(
        [Column("topic"), folding("key"), number("partitions"), number("records"), number("bytes"), folding("kept")],
        [
            (
                topic.name,
                ", ".join(topic.key) or "-",
                str(topic.partitions),
                f"{records:,}",
                format_size(size),
                kept(topic),
            )
            for topic, records, size in sums
        ],
    )


def create(
    directory: Directory,
    topic: TopicName,
    schema: Annotated[
        str,
        typer.Argument(
            metavar="SCHEMA",
            help='Its columns as Spark DDL: "id bigint NOT NULL, tags array<string>".',
            show_default=False,
        ),
    ],
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A key column; repeat for more. A key's records stay in order."),
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, metavar="N", help="Number of partitions.")] = 1,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Without a key: records with equal values stay in order; repeat for more columns.",
        ),
    ] = None,
    event_time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The timestamp column with the time of the event.")
    ] = None,
    retention_age: RetentionAge = None,
    retention_bytes: RetentionBytes = None,
    cleanup: Cleanup = None,
    dead_letter: DeadLetter = None,
    segment_bytes_max: SegmentBytesMax = None,
    segment_age_max: SegmentAgeMax = None,
    tombstone_grace: TombstoneGrace = None,
    archive: Archive = None,
    hold_age_max: HoldAgeMax = None,
    hold_bytes_max: HoldBytesMax = None,
    views: Views = None,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="Do nothing if an identical topic exists.")] = False,
) -> None:
    """Create a topic."""
    settings = settings_given(
        retention_age=retention_age, retention_bytes=retention_bytes, cleanup=cleanup, dead_letter=dead_letter,
        segment_bytes_max=segment_bytes_max, segment_age_max=segment_age_max, tombstone_grace=tombstone_grace,
        archive=archive, hold_age_max=hold_age_max, hold_bytes_max=hold_bytes_max, views=views,
    )  # fmt: skip
    with open_existing(directory) as log:
        existed = topic in {each.name for each in log.topics()}
        made = log.create(
            topic, schema, key=key, partitions=partitions, partition_by=partition_by, event_time=event_time,
            exist_ok=exist_ok, **settings,
        )  # fmt: skip
    made_now = f"Created topic {made.name} with {count(made.partitions, 'partition')}: {format_ddl(made.schema)}."
    say(f"Topic {made.name} already exists with the same definition." if existed else made_now)


def describe(directory: Directory, topic: TopicName, *, as_json: Json = False) -> None:
    """Show a topic: columns, settings, what each partition holds, earlier schemas, losses."""
    with open_existing(directory) as log:
        page = page_of(log, log.topic(topic))
    if as_json:
        print_json([page.to_json()])
    else:
        print_page(page)


def alter(
    directory: Directory,
    topic: TopicName,
    *,
    schema: Annotated[
        str | None,
        typer.Option(metavar="DDL", help="All columns of the new schema: nullable ones may be added, types widened."),
    ] = None,
    add_column: Annotated[
        list[str] | None, typer.Option(metavar="DDL", help='A column to add, such as "note string"; repeat for more.')
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="More partitions, for a topic with neither a key nor --partition-by."),
    ] = None,
    retention_age: RetentionAge = None,
    retention_bytes: RetentionBytes = None,
    cleanup: Cleanup = None,
    dead_letter: DeadLetter = None,
    segment_bytes_max: SegmentBytesMax = None,
    segment_age_max: SegmentAgeMax = None,
    tombstone_grace: TombstoneGrace = None,
    archive: Archive = None,
    hold_age_max: HoldAgeMax = None,
    hold_bytes_max: HoldBytesMax = None,
    views: Views = None,
) -> None:
    """Change a topic. Records stay as they are, and are read with the new columns."""
    settings = settings_given(
        retention_age=retention_age, retention_bytes=retention_bytes, cleanup=cleanup, dead_letter=dead_letter,
        segment_bytes_max=segment_bytes_max, segment_age_max=segment_age_max, tombstone_grace=tombstone_grace,
        archive=archive, hold_age_max=hold_age_max, hold_bytes_max=hold_bytes_max, views=views,
    )  # fmt: skip
    if schema is not None and add_column:
        raise UsageError("--schema and --add-column cannot be combined.", hint="Use one of them.")
    if schema is None and not add_column and partitions is None and not settings:
        raise UsageError("There is nothing to change.", hint="`headwater log alter --help` lists what can be changed.")
    with open_existing(directory) as log:
        if add_column:
            schema = ", ".join([format_ddl(log.topic(topic).schema), *add_column])
        changed = log.alter(topic, schema=schema, partitions=partitions, **settings)
    say(f"Changed topic {changed.name}.")


def drop(directory: Directory, topic: TopicName, *, yes: Yes = False) -> None:
    """Delete a topic with all its records and the offsets of its groups."""
    with open_existing(directory) as log:
        found = log.topic(topic)
        ask(f"{_weight(log, found)} Delete it for good?", yes=yes)
        log.drop(topic)
    say(f"Deleted topic {topic}.")


def kept(topic: Topic) -> str:
    """How long records are kept, in a few words."""
    settings = topic.settings
    if settings.cleanup == "compact":
        return "newest per key"
    limits = []
    if settings.retention_age is not None:
        limits.append(format_duration(settings.retention_age))
    if settings.retention_bytes is not None:
        limits.append(format_size(settings.retention_bytes))
    if settings.archive is not None:
        return f"forever, {', '.join(limits) or 'all'} of it local"
    return ", ".join(limits) or "forever"


def _weight(log: Log, topic: Topic) -> str:
    sizes = log.sizes(topic.name)
    records, size = sum(one.records for one in sizes), sum(one.bytes for one in sizes)
    readers = sorted({lag.group for lag in log.lag() if lag.topic == topic.name})
    read = f", and is read by {_listed(readers)}" if readers else ""
    return f"Topic {topic.name} has {count(records, 'record')} ({format_size(size)}){read}."


def _listed(groups: Sequence[str]) -> str:
    return ("group " if len(groups) == 1 else "groups ") + ", ".join(groups)
