"""Every error headwater raises, as one tree ordered by what the caller does next.

    HeadwaterError
    |- UsageError            nothing happened: fix the call
    |  |- InvalidName        a topic, group, producer or bookmark name
    |  |- SchemaError        a schema that cannot be parsed, stored or evolved to
    |  |- InvalidRecords     records that do not fit their topic's schema
    |  |- UnknownTopic
    |  |- TopicExists
    |  |- UnknownGroup
    |  |- Fenced             somebody newer holds this producer, partition or lease
    |  |- OutOfSequence      a producer skipped a sequence number
    |  |- Conflict           a bookmark was not what the commit expected
    |  |- RecordsGone        the records asked for were deleted by retention
    |  |- PositionGone       retention or compaction removed what a read at this position would have to show
    |  |- BufferFull         a producer is ahead of the disk, and its policy says so
    |  |- InvalidQuery       SQL of a view or of a query that does not parse or resolve
    |  |- UnsupportedQuery   a view asks for something that cannot be kept up to date
    |  |- TooManyRows        a scalar subquery of a view has more than one row
    |  |- Overflow           a sum of a view does not fit its type
    |  |- ReadOnly           a log in a directory that may not be written was asked to change
    |  |- CaptureRefused     a database is not set up so that it can be captured
    |  |- CaptureOvertaken   another process captures the same source
    |  `- CaptureDropped     somebody has ended the capture of a source for good
    |- ExternalError
    |  |- Determinate        it did not happen: try again when the cause is gone
    |  |  |- DiskFull
    |  |  |- LogBusy
    |  |  |- StorageFailed
    |  |  |- FileUnreadable     a file is there, and may not be read: its permissions, or the disk
    |  |  |- TooManyOpenFiles   the process has as many files open as it may
    |  |  |- SourceUnavailable  a database does not answer, or has ended the connection
    |  |  `- QueryFailed        a database refuses a query
    |  |- Indeterminate      it may have happened: look before trying again
    |  |- Corrupt            committed data cannot be read back: stop and repair
    |  |- SlotLost           a database has thrown away changes that were not captured yet
    |  `- CatalogUnusable    the catalog cannot be opened: look at its permissions, or bring it back from a backup
    `- InternalError         a bug in headwater: stop and report

Callers decide on the class and its fields, never on the text. `code` is stable across versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class HeadwaterError(Exception):
    """One sentence about what went wrong, and a hint that says what to do."""

    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")


class UsageError(HeadwaterError):
    """Nothing happened; the call has to change."""

    code = "usage"


class ExternalError(HeadwaterError):
    """Something outside headwater failed: the disk, the operating system, another process."""

    code = "external"


class InternalError(HeadwaterError):
    """A bug: an invariant of headwater's own does not hold."""

    code = "internal"


class Determinate(ExternalError):
    """It did not happen; trying again is safe."""

    code = "determinate"


class Indeterminate(ExternalError):
    """It may have happened; look before trying again."""

    code = "indeterminate"


class InvalidName(UsageError):
    code = "invalid_name"

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(
            f"{name!r} is not a valid {kind} name: {reason}.",
            hint="Use letters, digits, '.', '_' and '-', at most 200 of them, starting with a letter or digit.",
        )
        self.kind, self.name, self.reason = kind, name, reason


class SchemaError(UsageError):
    """A schema that cannot be parsed, stored, or evolved to."""

    code = "schema"

    def __init__(self, message: str, *, column: str | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.column = column


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """Why one record of an append does not fit its topic: which record, which field, expected, got."""

    index: int
    field: str | None
    expected: str
    got: str
    original: bytes

    @property
    def reason(self) -> str:
        where = f"field {self.field!r}" if self.field is not None else "the record"
        return f"{where}: expected {self.expected}, got {self.got}"


class InvalidRecords(UsageError):
    """Records that do not fit; nothing of the append was written."""

    code = "invalid_records"

    def __init__(self, topic: str, rejected: Sequence[RejectedRecord]) -> None:
        first = rejected[0]
        others = f" ({len(rejected) - 1} more do not fit either)" if len(rejected) > 1 else ""
        super().__init__(
            f"Record {first.index} does not fit topic {topic!r}: {first.reason}{others}.",
            hint="Fix the record, evolve the schema, or give the topic a dead-letter topic that takes such records.",
        )
        self.topic, self.rejected = topic, tuple(rejected)


class UnknownTopic(UsageError):
    code = "unknown_topic"

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        shown = ", ".join(sorted(known)[:10]) or "none yet"
        super().__init__(f"There is no topic {name!r}.", hint=f"Topics of this log: {shown}.")
        self.name = name


class TopicExists(UsageError):
    code = "topic_exists"

    def __init__(self, name: str, *, same: bool) -> None:
        super().__init__(
            f"Topic {name!r} exists already{'' if same else ', with another definition'}.",
            hint="create(..., exist_ok=True) takes it as it is." if same else "alter() changes what may change.",
        )
        self.name, self.same = name, same


class UnknownGroup(UsageError):
    code = "unknown_group"

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no consumer group {name!r}.", hint="`headwater log groups` lists them.")
        self.name = name


class Fenced(UsageError):
    """A newer holder took over; what this one tried did not happen and never will."""

    code = "fenced"

    def __init__(self, kind: str, name: str, epoch: int, current: int) -> None:
        super().__init__(
            f"This holder of {kind} {name!r} (epoch {epoch}) was replaced by a newer one (epoch {current}).",
            hint="Another process took over. Stop this one, or open it again to take over in turn.",
        )
        self.kind, self.name, self.epoch, self.current = kind, name, epoch, current


class OutOfSequence(UsageError):
    code = "out_of_sequence"

    def __init__(self, producer: str, sequence: int, expected: int) -> None:
        super().__init__(
            f"Producer {producer!r} sent sequence {sequence}; the next one is {expected}.",
            hint=f"An earlier send did not arrive: send {expected} first.",
        )
        self.producer, self.sequence, self.expected = producer, sequence, expected


class Conflict(UsageError):
    code = "conflict"

    def __init__(self, bookmark: str, expected: object, actual: object) -> None:
        super().__init__(
            f"Nothing was committed: bookmark {bookmark!r} is {actual!r}, expected {expected!r}.",
            hint="Read the bookmark again, decide again, and commit with the new expectation.",
        )
        self.bookmark, self.expected, self.actual = bookmark, expected, actual


class RecordsGone(UsageError):
    """Records between `first` and `last` (both included) are not in the log any more."""

    code = "records_gone"

    def __init__(self, topic: str, partition: int, first: int, last: int) -> None:
        super().__init__(
            f"Topic {topic!r}, partition {partition}: {last - first + 1} records, "
            f"offsets {first} to {last}, were deleted by retention.",
            hint="Go on from the earliest record kept (on_gone='earliest'), or raise the topic's retention.",
        )
        self.topic, self.partition = topic, partition
        self.first, self.last, self.count = first, last, last - first + 1


class PositionGone(UsageError):
    """A topic cannot be read at, or on from, a position: records that this needs were removed."""

    code = "position_gone"

    def __init__(self, topic: str, position: int, earliest: int, cause: str) -> None:
        super().__init__(
            f"Topic {topic!r} cannot be read from position {position}: "
            f"{cause} removed records up to position {earliest}.",
            hint=f"Use position {earliest} or later, or start='earliest'; cleanup='none' keeps all history.",
        )
        self.topic, self.position, self.earliest, self.cause = topic, position, earliest, cause


class BufferFull(UsageError):
    code = "buffer_full"

    def __init__(self, records_max: int, policy: str) -> None:
        super().__init__(
            f"The producer's buffer holds {records_max} records that are not durable yet (policy {policy!r}).",
            hint="Send less, raise buffer_records_max, or use the policy 'block'.",
        )
        self.records_max, self.policy = records_max, policy


class UnsupportedQuery(UsageError):
    """A view asks for something that cannot be kept up to date."""

    code = "unsupported_query"

    def __init__(self, construct: str, detail: str = "", *, hint: str = "", view: str | None = None) -> None:
        where = f"view {view!r}" if view else "a view"
        super().__init__(f"{construct} is not supported in {where}{': ' + detail if detail else ''}.", hint=hint)
        self.construct, self.detail, self.view = construct, detail, view


class InvalidQuery(UsageError):
    """SQL that does not parse, or that names something that is not there; of a view, or (None) of a query over views.

    `line` and `column` are counted from 1; `excerpt` is that line with a caret below the place, where it is known.
    """

    code = "invalid_query"

    def __init__(
        self, view: str | None, reason: str, *, line: int | None = None, column: int | None = None, sql: str = ""
    ) -> None:
        subject = "Invalid query" if view is None else f"Invalid SQL in view {view!r}"
        place = "" if line is None else f", line {line}, column {column}"
        super().__init__(f"{subject}{place}: {reason}")
        self.view, self.reason, self.line, self.column = view, reason, line, column
        self.excerpt = _excerpt(sql, line, column or 1) if line is not None else ""
        if self.excerpt:
            self.add_note(self.excerpt)


class TooManyRows(UsageError):
    code = "too_many_rows"

    def __init__(self, rows: int) -> None:
        super().__init__(
            f"More than one row returned by a subquery used as an expression: {rows} rows.",
            hint="Let the subquery aggregate its rows, or add LIMIT 1 with an order.",
        )
        self.rows = rows


class Overflow(UsageError):
    code = "overflow"

    def __init__(self, function: str, kind: str, group: Mapping[str, object]) -> None:
        where = ", ".join(f"{name} = {value!r}" for name, value in group.items())
        super().__init__(
            f"{function} does not fit {kind}{f' in the group {where}' if where else ''}.",
            hint="Cast the argument to a wider type, such as decimal(38, 0) or double.",
        )
        self.function, self.kind, self.group = function, kind, dict(group)


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a database lacks to be captured: what, and the SQL (or the setting) that provides it."""

    what: str
    remedy: str


class CaptureRefused(UsageError):
    """A database, or the way that it is asked to be captured, has to change first; nothing was changed."""

    code = "capture_refused"

    def __init__(self, source: str, missing: Sequence[Missing]) -> None:
        count = f"{len(missing)} things are" if len(missing) > 1 else "something is"
        listed = "\n".join(f"  - {each.what}\n      {each.remedy}" for each in missing)
        super().__init__(
            f"{source} cannot be captured yet, {count} missing:\n{listed}",
            hint="Nothing was changed. Run it again then.",
        )
        self.source, self.missing = source, tuple(missing)


class SourceUnavailable(Determinate):
    code = "source_unavailable"

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(
            f"{source} does not answer: {reason}.",
            hint="Nothing is lost: capture goes on where it was as soon as the database answers.",
        )
        self.source, self.reason = source, reason


class QueryFailed(Determinate):
    code = "query_failed"

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source} refuses a query: {reason}.", hint="Look at the table, and at the condition.")
        self.source, self.reason = source, reason


class SlotLost(ExternalError):
    """The replication slot does not lead on from what was captured: changes in between are gone from the WAL."""

    code = "slot_lost"

    def __init__(self, slot: str, captured: str, reason: str) -> None:
        super().__init__(
            f"The replication slot {slot!r} does not go on from {captured}: {reason}.",
            hint="The next run of `headwater capture` makes a new one and compares every table with it.",
        )
        self.slot, self.captured, self.reason = slot, captured, reason


class CaptureOvertaken(UsageError):
    """Another process captures the same source into the same log; what this one tried did not happen."""

    code = "capture_overtaken"

    def __init__(self, source: str, expected: str, actual: str) -> None:
        super().__init__(
            f"Another process captures source {source!r}: the log is at {actual}, not at {expected}.",
            hint="Stop one of the two.",
        )
        self.source, self.expected, self.actual = source, expected, actual


class CaptureDropped(UsageError):
    """Slot and publications of a source were removed while it was captured."""

    code = "capture_dropped"

    def __init__(self, source: str) -> None:
        super().__init__(
            f"Source {source!r} was dropped while it was captured.", hint="Run it again to begin anew, or take it out."
        )
        self.source = source


class DiskFull(Determinate):
    code = "disk_full"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"There is no room left on the disk that holds {path}.",
            hint="Nothing was appended and nothing is lost. Free some space, or lower the retention; the log goes on.",
        )
        self.path = path


class TooManyOpenFiles(Determinate):
    """The process, or the machine, may not open another file; the disk is fine."""

    code = "too_many_open_files"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} cannot be opened: there are too many open files.",
            hint="Nothing was changed. Raise the limit (`ulimit -n`), use fewer partitions, or close other files.",
        )
        self.path = path


class LogBusy(Determinate):
    code = "log_busy"

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(
            f"Another process has held the write lock of {path} for {seconds:g} s.",
            hint="Look for a process that is stopped or stuck while it appends.",
        )
        self.path, self.seconds = path, seconds


class LogReplaced(Determinate):
    """The directory of an open log was deleted; there may be another log in its place."""

    code = "log_replaced"

    def __init__(self, path: str) -> None:
        super().__init__(f"The log {path} was deleted while it was open.", hint="Close it, and open it again.")
        self.path = path


class StorageFailed(Determinate):
    code = "storage_failed"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"Writing to {path} failed: {reason}.",
            hint="Nothing was appended. Look at the health of the disk, then append again.",
        )
        self.path, self.reason = path, reason


class FileUnreadable(Determinate):
    code = "file_unreadable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read: {reason}.",
            hint="Nothing was changed. Check its owner and permissions, and the disk, then try again.",
        )
        self.path, self.reason = path, reason


class ReadOnly(UsageError):
    code = "read_only"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The log in {path} is read-only: this process may not write there.",
            hint="Check the directory's owner and permissions, and whether its file system is mounted read-only.",
        )
        self.path = path


class Corrupt(ExternalError):
    """Committed data that cannot be read back as it was written."""

    code = "corrupt"

    def __init__(self, segment: str, first: int, last: int, reason: str) -> None:
        super().__init__(
            f"Segment {segment} is damaged, offsets {first} to {last}: {reason}.",
            hint="`headwater log check` shows the whole damage, `headwater log repair` what can be saved.",
        )
        self.segment, self.first, self.last, self.reason = segment, first, last, reason


class CatalogUnusable(ExternalError):
    """The log's catalog cannot be opened. `damaged` tells whether it is not a catalog any more."""

    code = "catalog_unusable"

    def __init__(self, path: str, reason: str, *, damaged: bool) -> None:
        super().__init__(
            f"The log's catalog {path} is damaged: {reason}." if damaged else f"{path} cannot be used: {reason}.",
            hint="No repair can mend it: restore a backup." if damaged else "Look at its owner and permissions.",
        )
        self.path, self.reason, self.damaged = path, reason, damaged


_EXCERPT_WIDTH_MAX = 100
# Where a line of an excerpt is cut.
_CUT = "…"


def _excerpt(text: str, line: int, column: int) -> str:
    """The line of a text in which something is wrong, and a caret below the place; nothing if there is no such line."""
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    shown, place = lines[line - 1].expandtabs(1), max(column - 1, 0)
    first = max(0, min(place - _EXCERPT_WIDTH_MAX // 2, len(shown) - _EXCERPT_WIDTH_MAX))
    before, after = _CUT if first else "", _CUT if first + _EXCERPT_WIDTH_MAX < len(shown) else ""
    part = shown[first : first + _EXCERPT_WIDTH_MAX]
    return f"{before}{part}{after}\n{' ' * (place - first + len(before))}^"
