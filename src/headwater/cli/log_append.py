"""`headwater log append`: records from a file or a pipe, batch by batch, each batch durable or not there at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.arguments import Directory, Json, TopicName, examples, open_existing
from headwater.cli.beginning import beginning_of
from headwater.cli.debezium import as_records
from headwater.cli.failures import FAILED, report
from headwater.cli.inputs import STDIN, Format, InputBatch, check_file, format_of, json_batches, parquet_batches
from headwater.cli.output import complain, count, hint, print_json, say, warn
from headwater.cli.progress import Bar, uninterrupted
from headwater.cli.rejections import rejection
from headwater.errors import HeadwaterError, Indeterminate, InternalError, InvalidRecords, UsageError
from headwater.log.port import Log
from headwater.model.position import Position
from headwater.system.names import check_name

PANEL = "Records"
REJECTED_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Request:
    """What to append to, and how."""

    topic: str
    delete: bool = False
    partition: int | None = None
    headers: Mapping[str, str] | None = None
    bookmark: str | None = None
    debezium: bool = False


class Appender:
    """Appends batches and knows how far it got. `done` counts records of the input, from its beginning."""

    def __init__(self, log: Log, request: Request, skip: int) -> None:
        self._log, self._request = log, request
        self.dead_letter = log.topic(request.topic).settings.dead_letter
        self._remembered = log.bookmark(request.bookmark) if request.bookmark is not None else None
        self.known = beginning_of(self._remembered) if request.bookmark is not None else None
        self.skipped = skip if self.known is None else self.known.records
        self.done = self.skipped
        self.dead_letters = 0
        # Where in the input the records of the last batch stand.
        self.lines: Sequence[int] = ()
        self.position: Position | None = None

    @property
    def appended(self) -> int:
        return self.done - self.skipped

    def append(self, batch: InputBatch) -> None:
        """One commit. Raises what stands in the way; nothing of the batch is in the log then."""
        request = self._request
        done = self.done + len(batch.numbers)
        remembered = None if batch.beginning is None else batch.beginning.to_json()
        rows: Any = batch.rows
        if request.debezium:
            rows, self.lines = as_records(self._log, request.topic, batch)
        else:
            self.lines = batch.numbers
        with uninterrupted():
            with self._log.commit(headers=request.headers, on_conflict="return") as commit:
                if request.delete:
                    commit.delete(request.topic, rows)
                else:
                    commit.append(request.topic, rows, partition=request.partition)
                if request.bookmark is not None:
                    commit.bookmark(request.bookmark, remembered, expect=self._remembered)
            if commit.conflict is not None:
                raise UsageError(
                    "Another process appends with the same --resume name.",
                    hint="Wait until it has ended, or use another name.",
                )
            result = commit.result
            self.done, self._remembered, self.position = done, remembered, result.position
            self.dead_letters += sum(
                end - first for (topic, _), (first, end) in result.offsets.items() if topic == self.dead_letter
            )


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            """echo '{"id": 1, "amount": "9.50", "at": "2026-01-01T10:00:00Z"}' > orders.jsonl""",
            "headwater log append ./data orders orders.jsonl --resume first-load",
            """echo '{"id": 2, "name": "Ada"}' | headwater log append ./data customers""",
            """echo '{"id": 2}' | headwater log append ./data customers --delete""",
            """echo '{"op": "c", "after": {"id": 3, "name": "Bo"}}' > events.jsonl""",
            "headwater log append ./data customers events.jsonl --format debezium",
        ),
    )(append)


def append(
    directory: Directory,
    topic: TopicName,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="JSON lines, Parquet or Debezium's change events; - is standard input."),
    ] = STDIN,
    *,
    input_format: Annotated[
        Format | None, typer.Option("--format", help="The format of FILE, if its extension does not say.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="The records are keys: append a tombstone for each.")
    ] = False,
    partition: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Append to this partition, whatever the key. A key in two partitions is two rows of the table.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header for every record; repeat for more.")
    ] = None,
    skip_records: Annotated[int, typer.Option(min=0, metavar="N", help="Skip the first N records of the input.")] = 0,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Remember in the log, with every batch, how far the input was read. The same command continues there, "
            "even after a kill, and appends nothing twice. Every input needs a separate name.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Append records from a file or from standard input. Every batch is durable before the next is read."""
    if delete and partition is not None:
        raise UsageError("A tombstone goes to its key's partition.", hint="Leave out --partition.")
    if resume is not None and skip_records:
        raise UsageError("--resume already knows what to skip.", hint="Leave out --skip-records.")
    bookmark = None if resume is None else check_name("bookmark", f"append.{topic}.{resume}")
    check_file(file)
    chosen = format_of(file, input_format)
    if chosen == "debezium" and delete:
        raise UsageError("A change event already says what is deleted.", hint="Leave out --delete.")
    request = Request(topic, delete, partition, _headers(header or []), bookmark, chosen == "debezium")
    # A stream may be appended for days: retention has to be kept meanwhile.
    with open_existing(directory, upkeep=True) as log:
        appender = Appender(log, request, skip_records)
        read = parquet_batches if chosen == "parquet" else json_batches
        _append_all(
            appender,
            request,
            read(file, appender.skipped, appender.known),
            "row" if chosen == "parquet" else "line",
        )
        position = log.position() if appender.position is None else appender.position
    _report(directory, appender, request, position, as_json=as_json)


def _append_all(appender: Appender, request: Request, batches: Iterator[InputBatch], place: str) -> None:
    """Appends batch after batch; says how far it got if something stops it."""
    with Bar("Appending") as bar:
        try:
            for batch in batches:
                try:
                    appender.append(batch)
                except InvalidRecords as error:
                    bar.close()
                    _name_rejected(error, appender.lines, place)
                    _say_how_far(appender, request)
                    raise typer.Exit(FAILED) from None
                bar(batch.done, batch.total, count(appender.appended, "record"))
        except InternalError:
            raise
        except KeyboardInterrupt:
            bar.close()
            _say_how_far(appender, request)
            raise
        except (HeadwaterError, OSError) as error:
            bar.close()
            code = report(error)
            _say_how_far(appender, request, error)
            raise typer.Exit(code) from None


def _name_rejected(error: InvalidRecords, lines: Sequence[int], place: str) -> None:
    for rejected in error.rejected[:REJECTED_SHOWN_MAX]:
        where = f"{place.capitalize()} {lines[rejected.index]}"
        complain(f"{where} does not fit topic {error.topic!r}: {rejection(rejected)}.")
    more = len(error.rejected) - REJECTED_SHOWN_MAX
    if more > 0:
        say(f"({more:,} more of this batch do not fit either.)")


def _say_how_far(appender: Appender, request: Request, error: Exception | None = None) -> None:
    sure = not isinstance(error, Indeterminate)
    if appender.position is None:
        say("Nothing was appended." if sure else "It is not known whether the first batch was appended.")
    else:
        records = ("" if sure else "at least ") + count(appender.appended, "record")
        say(f"Appended {records}, up to position {appender.position}; nothing after them.")
    if isinstance(error, UsageError) and appender.position is None:
        return
    if request.bookmark is not None:
        hint("The same command continues where this one ended.")
    elif appender.done:
        hint(f"Continue with --skip-records {appender.done}.")


def _report(directory: Path, appender: Appender, request: Request, position: Position, *, as_json: bool) -> None:
    good = appender.appended - appender.dead_letters
    if as_json:
        print_json(
            [
                {
                    "topic": request.topic,
                    "records": good,
                    "dead_letters": appender.dead_letters,
                    "skipped": appender.skipped,
                    "position": str(position),
                }
            ]
        )
    elif not appender.appended:
        before = f" after the first {appender.skipped:,}" if appender.skipped else ""
        say(f"There was nothing to append{before}.")
    else:
        thing = "tombstone" if request.delete else "record"
        say(f"Appended {count(good, thing)} to {request.topic}: position {position}.")
    if appender.dead_letters:
        warn(f"{count(appender.dead_letters, 'record')} did not fit and went to {appender.dead_letter}.")
        hint(f"`headwater log read {directory} {appender.dead_letter}` shows why.")


def _headers(given: list[str]) -> dict[str, str] | None:
    headers = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"{text!r} is not a header.", hint="Write it as name=value.")
        headers[name] = value
    return headers or None
