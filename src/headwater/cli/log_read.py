"""`headwater log read`: records of one topic or several, as lines for people or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Annotated

import typer

from headwater.cli.arguments import Directory, Json, examples, open_existing
from headwater.cli.debezium import event_line
from headwater.cli.places import parse_end, parse_start
from headwater.cli.values import RecordText
from headwater.errors import UsageError
from headwater.log.port import Log, Start
from headwater.model.encoding import format_instant
from headwater.model.record import Record

PANEL = "Records"
# Behind the end of every partition.
_NOWHERE = (1 << 63) - 1
_INSTANT_WIDTH = len("2026-01-31T12:00:00.000Z")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            "headwater log read ./data orders --from 10m",
            "headwater log read ./data orders customers --json --to position:2",
            "headwater log read ./data orders --follow --limit 1",
            'headwater log create ./data people "id bigint, name string" --key id --partitions 2',
            "headwater log read ./data customers --rows | headwater log append ./data people",
            "headwater log read ./data customers --debezium | headwater log append ./data people --format debezium",
        ),
    )(read)


def read(
    directory: Directory,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="One topic or several, in commit order.", show_default=False)
    ],
    *,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Where to begin: earliest, latest, an offset (42), a time of receipt (2026-01-31T12:00:00Z, UTC if it "
            "has no zone), how long ago (10m), or after a position (position:42).",
        ),
    ] = "earliest",
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="Where to end: before an offset or a time, or with a position. Otherwise with what is there now.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only this partition, of one topic.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, metavar="N", help="Stop after N records.")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Print the records' own columns as JSON lines that `append` takes.")
    ] = False,
    debezium: Annotated[
        bool, typer.Option("--debezium", help="Print Debezium's change events, as `append --format debezium` takes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read records, in the order in which they were committed."""
    if rows + as_json + debezium > 1:
        raise UsageError("--rows, --json and --debezium cannot be combined.", hint="Use one of them.")
    begin, until = parse_start(start), None if end is None else parse_end(end)
    with open_existing(directory) as log:
        found = log.read(topics, start=_only(log, topics, partition, begin), end=until, follow=follow)
        wanted = (record for record in found if partition is None or record.partition == partition)
        write = _events(log) if debezium else _writer(log, topics, rows=rows, as_json=as_json)
        for record in islice(wanted, limit):
            write(record)
            if follow:
                sys.stdout.flush()


def _only(log: Log, topics: Sequence[str], partition: int | None, start: Start) -> Start:
    """The start, so that an offset is asked of the one partition only: the others may not have it any more."""
    if partition is None:
        return start
    if len(topics) > 1:
        raise UsageError("--partition works with one topic only.", hint="Read the topics one by one, or leave it out.")
    partitions = log.topic(topics[0]).partitions
    if partition >= partitions:
        raise UsageError(f"Topic {topics[0]!r} has partitions 0 to {partitions - 1}, not {partition}.")
    if not isinstance(start, int):
        return start
    return {number: start if number == partition else _NOWHERE for number in range(partitions)}


def _events(log: Log) -> Callable[[Record], None]:
    line = event_line(log)
    return lambda record: print(line(record))


def _writer(log: Log, topics: Sequence[str], *, rows: bool, as_json: bool) -> Callable[[Record], None]:
    texts = {name: RecordText(log.topic(name)) for name in topics}
    line = _json_line if as_json else _row_line if rows else _Lines(topics)

    def write(record: Record) -> None:
        if not texts[record.topic].fits(record):
            texts[record.topic] = RecordText(log.topic(record.topic))
        sys.stdout.write(line(texts[record.topic], record) + "\n")

    return write


def _json_line(text: RecordText, record: Record) -> str:
    return json.dumps(text.to_json(record), ensure_ascii=False)


def _row_line(text: RecordText, record: Record) -> str:
    return json.dumps(text.to_row(record), ensure_ascii=False)


class _Lines:
    """Lines for people, below a heading."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._width = max(len("topic"), *map(len, topics)) if len(topics) > 1 else 0
        self._begun = False

    def __call__(self, text: RecordText, record: Record) -> str:
        instant = format_instant(record.at.replace(microsecond=record.at.microsecond // 1000 * 1000))
        # Milliseconds are enough for people; a whole second has none in ISO 8601.
        at = instant[:-4] + "Z" if "." in instant else instant[:-1] + ".000Z"
        row = self._row(
            str(record.position), at, record.topic, str(record.partition), str(record.offset), text.to_line(record)
        )
        if self._begun:
            return row
        self._begun = True
        return self._row("position", "received", "topic", "partition", "offset", "record") + "\n" + row

    def _row(self, position: str, at: str, topic: str, partition: str, offset: str, record: str) -> str:
        topic = f"{topic:<{self._width}}  " if self._width else ""
        return f"{position:>8}  {at:<{_INSTANT_WIDTH}}  {topic}{partition:>9}  {offset:>8}  {record}".rstrip()
