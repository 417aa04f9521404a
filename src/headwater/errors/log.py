"""What can go wrong with a log: names, schemas, records, commits, positions, its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors.kinds import Determinate, ExternalError, UsageError


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
            f"Topic {name!r} already exists{'' if same else ', with a different definition'}.",
            hint="create(..., exist_ok=True) takes it as it is." if same else "alter() changes what may change.",
        )
        self.name, self.same = name, same


class TopicDiffers(UsageError):
    """A topic is not what a program defines, and cannot become it; `differences` has one line for each reason."""

    code = "topic_differs"

    def __init__(self, name: str, differences: Sequence[str]) -> None:
        lines = "".join(f"\n  {line}" for line in differences)
        super().__init__(
            f"Topic {name!r} cannot become what the application defines:{lines}",
            hint="Define it as the log has it, or use a new name and copy the records. Nullable columns can be added, "
            "and types widened.",
        )
        self.name, self.differences = name, tuple(differences)


class UnknownFollower(UsageError):
    code = "unknown_follower"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"There is no follower {name!r}.", hint=f"There are: {', '.join(known[:10]) or 'none'}.")
        self.name = name


class UnknownGroup(UsageError):
    code = "unknown_group"

    def __init__(self, name: str, *, deleted: bool = False) -> None:
        super().__init__(
            f"Consumer group {name!r} was deleted." if deleted else f"There is no consumer group {name!r}.",
            hint="Open a consumer again to recreate the group."
            if deleted
            else "`headwater log groups list` lists them.",
        )
        self.name, self.deleted = name, deleted


class GroupActive(UsageError):
    """A group cannot be moved or deleted under members that read it."""

    code = "group_active"

    def __init__(self, name: str, members: Sequence[str]) -> None:
        count = "an active member" if len(members) == 1 else f"{len(members)} active members"
        super().__init__(
            f"Consumer group {name!r} has {count}: {', '.join(members)}.",
            hint="Stop the consumers first, or force it: uncommitted work of these members is refused and read again.",
        )
        self.name, self.members = name, tuple(members)


class Fenced(UsageError):
    """A newer holder took over; what this one tried did not happen and never will."""

    code = "fenced"

    def __init__(self, kind: str, name: str, epoch: int, current: int) -> None:
        super().__init__(
            f"This holder of {kind} {name!r} (epoch {epoch}) was replaced by a newer one (epoch {current}).",
            hint="Nothing of this commit happened. Poll again: the consumer continues from its group's offsets."
            if kind == "partition"
            else "Another process took over. Stop this one, or open it again to take over in turn.",
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
            hint="Continue from the earliest record kept (on_gone='earliest'), or raise the topic's retention.",
        )
        self.topic, self.partition = topic, partition
        self.first, self.last, self.count = first, last, last - first + 1


class TombstonesGone(RecordsGone):
    """Tombstones between `first` and `last` (both included) were dropped before a group had read them.

    What the group has built may still have the rows that they deleted.
    """

    code = "tombstones_gone"

    def __init__(self, topic: str, partition: int, first: int, last: int, reason: str) -> None:
        UsageError.__init__(
            self,
            f"Topic {topic!r}, partition {partition}: {last - first + 1} tombstones, offsets {first} to {last}, "
            f"were dropped before this group had read them, because {reason}.",
            hint="What the group has built may still have deleted rows: reset the group to 'earliest' and build it "
            "again, or continue (on_gone='earliest'). A higher hold_age_max keeps tombstones longer.",
        )
        self.topic, self.partition = topic, partition
        self.first, self.last, self.count = first, last, last - first + 1


class PositionGone(UsageError):
    """A topic cannot be read at, or on from, a position: records that this needs were removed."""

    code = "position_gone"

    def __init__(self, topic: str, position: str, earliest: str, cause: str) -> None:
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


class ReadOnly(UsageError):
    code = "read_only"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The log in {path} is read-only: this process may not write there.",
            hint="Check the directory's owner and permissions, and whether its file system is mounted read-only.",
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


class LogUnavailable(Determinate):
    """The brokers that hold the log do not answer, or refuse. Nothing was changed."""

    code = "log_unavailable"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"The log {url} is unavailable: {reason}.",
            hint="Check that the brokers run and that this machine can reach them, then try again.",
        )
        self.url, self.reason = url, reason


class LogReplaced(Determinate):
    """The directory of an open log was deleted; there may be another log in its place."""

    code = "log_replaced"

    def __init__(self, path: str) -> None:
        super().__init__(f"The log {path} was deleted while it was open.", hint="Close it, and open it again.")
        self.path = path


class Corrupt(ExternalError):
    """Committed data that cannot be read back as it was written."""

    code = "corrupt"

    def __init__(self, segment: str, first: int, last: int, reason: str) -> None:
        super().__init__(
            f"Segment {segment} is damaged, offsets {first} to {last}: {reason}.",
            hint="`headwater log check` shows all damage, `headwater log repair` what can be saved.",
        )
        self.segment, self.first, self.last, self.reason = segment, first, last, reason


class CatalogUnusable(ExternalError):
    """The log's catalog cannot be opened. `damaged` tells whether it is not a catalog any more."""

    code = "catalog_unusable"

    def __init__(self, path: str, reason: str, *, damaged: bool) -> None:
        super().__init__(
            f"The log's catalog {path} is damaged: {reason}." if damaged else f"{path} cannot be used: {reason}.",
            hint="A repair cannot fix it: restore a backup." if damaged else "Check its owner and permissions.",
        )
        self.path, self.reason, self.damaged = path, reason, damaged
