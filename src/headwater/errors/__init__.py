"""Every error headwater raises, as one tree ordered by what the caller does next.

    HeadwaterError
    |- UsageError                  nothing happened: fix the call
    |  |- InvalidName              a topic, group, producer or bookmark name
    |  |- SchemaError              a schema that cannot be parsed, stored or evolved to
    |  |- InvalidRecords           records that do not fit their topic's schema
    |  |- UnknownTopic
    |  |- TopicExists
    |  |- TopicDiffers             a topic is not what an application defines, and cannot become it
    |  |- UnknownFollower
    |  |- UnknownGroup
    |  |- GroupActive              a consumer group cannot be moved or deleted under its members
    |  |- Fenced                   a newer holder has this producer, partition or lease
    |  |- AlreadyRunning           another process runs the application
    |  |- OutOfSequence            a producer skipped a sequence number
    |  |- Conflict                 a bookmark was not what the commit expected; nothing was committed
    |  |- RecordsGone              retention deleted the records asked for
    |  |  `- TombstonesGone        compaction dropped tombstones that a group had not read
    |  |- PositionGone             retention or compaction removed what a read at this position needs
    |  |  `- ViewPositionGone      the changes of a view are no longer kept from this position on
    |  |- ViewPositionBetween      a view was never at this position: a batch covers more than that
    |  |- BufferFull               a producer is ahead of the disk, and its policy is to fail
    |  |- ReadOnly                 a write to a log in a directory that this process may not write to
    |  |- InvalidQuery             SQL of a view or of a query that does not parse or resolve
    |  |- UnsupportedQuery         a view asks for something that cannot be kept up to date
    |  |- TooManyRows              a scalar subquery of a view has more than one row
    |  |- Overflow                 a sum of a view does not fit its type
    |  |- QueryEnded               a limit ended a query
    |  |  |- QueryTooLong
    |  |  |- QueryTooLarge
    |  |  `- QueryOutOfMemory
    |  |- UnknownView
    |  |- UnknownSink
    |  |- RowRefused               the target of a sink refuses a row that was sent again
    |  |- NoCandidate              no changed views wait for a decision
    |  |- ViewNotKept              a view that can be planned but not run; the others are kept up to date
    |  |- ViewFailed               an expression or operator of a view failed on the records of a batch
    |  |- RecordsMissed            records that a pipeline still needed were deleted
    |  |- ViewChanged              a view is defined otherwise than the one that is published
    |  |- HistoryGone              a view remembers records that are gone, so that it cannot be verified
    |  |- RecordFailed             a view fails on this record; the pipeline has stopped before it
    |  |- FunctionFailed           a function in Python raised, as a worker reports it
    |  |- OperatorFailed           a kernel refused a batch, as a worker reports it
    |  |- StoreOutdated            the store of a pipeline has the format of another version
    |  |- CaptureRefused           a database is not set up for capture
    |  |- CaptureOvertaken         another process captures the same source
    |  |- CaptureDropped           the capture of a source was ended for good
    |  |- Refused                  the server does not carry out a request
    |  `- RequestRefused           as a client sees it: the server refused a request
    |- ExternalError
    |  |- Determinate              it did not happen: try again when the cause is gone
    |  |  |- DiskFull
    |  |  |- LogBusy               another process holds the write lock of the log
    |  |  |- LogReplaced           the log's directory was deleted while it was open
    |  |  |- LogUnavailable        the brokers that hold the log do not answer
    |  |  |- StorageFailed
    |  |  |- BlobMissing           a file of a pipeline is not there, or not any more
    |  |  |- ArchiveUnavailable    the archive of a topic does not answer, or refuses
    |  |  |- FileUnreadable        a file cannot be read: its permissions, or the disk
    |  |  |- TooManyOpenFiles      the process has as many files open as it may
    |  |  |- StoreBusy             another process writes to the store of a pipeline
    |  |  |- StoreUnavailable      the server that holds the store of a pipeline does not answer
    |  |  |- NotYet                views, or the log, have not reached the position that a read asked for
    |  |  |- SinksBehind           sinks have not delivered a position in the time that a caller waits
    |  |  |- SparkStopped          Spark's Java process is gone
    |  |  |- WorkerLost            a process that works for Spark is gone
    |  |  |- SourceUnavailable     a database does not answer, or has closed the connection
    |  |  |- QueryFailed           a database refuses a query
    |  |  `- ServerUnavailable     as a client sees it: the server cannot be reached, or cannot do it now
    |  |- Indeterminate            it may have happened: look before trying again
    |  |  `- AnswerLost            a client's connection failed before its request was answered
    |  |  `- TargetFailed          a delivery to the target of a sink did not arrive, or may not have
    |  |     |- KeyRepeated        a view that is sunk by key has several rows of one key
    |  |     |- MessageRefused     a receiver refuses one message, and would take others
    |  |     `- TableRemoved       the table of a sink's target does not exist any more
    |  |- Corrupt                  committed data cannot be read back: stop and repair
    |  |  `- StateCorrupt          state of a view cannot be read back: delete it, and it is rebuilt
    |  |- SlotLost                 a database has thrown away changes that were not captured yet
    |  |- CatalogUnusable          the log's catalog cannot be opened
    |  |- StoreUnusable            the store of a pipeline cannot be opened
    |  |- TokensUnusable           the server's tokens cannot be read
    |  `- SparkNotStarted          Spark's Java process did not start
    |- InternalError               a bug in headwater: stop and report
    |  `- OperatorBroken           a kernel noticed one, as a worker reports it
    |- InvariantBroken             a bug that was caught in time: the batch was not published
    `- Declined                    the user was asked for confirmation and did not give it

Callers decide on the class and its fields, never on the text. `code` is stable across versions.
"""

from __future__ import annotations

from headwater.errors.kinds import Determinate, ExternalError, HeadwaterError, Indeterminate, InternalError, UsageError
from headwater.errors.log import (
    BufferFull,
    CatalogUnusable,
    Conflict,
    Corrupt,
    Fenced,
    GroupActive,
    InvalidName,
    InvalidRecords,
    LogBusy,
    LogReplaced,
    LogUnavailable,
    OutOfSequence,
    PositionGone,
    ReadOnly,
    RecordsGone,
    RejectedRecord,
    SchemaError,
    TombstonesGone,
    TopicDiffers,
    TopicExists,
    UnknownFollower,
    UnknownGroup,
    UnknownTopic,
)
from headwater.errors.queries import (
    InvalidQuery,
    Overflow,
    QueryEnded,
    QueryOutOfMemory,
    QueryTooLarge,
    QueryTooLong,
    TooManyRows,
    UnsupportedQuery,
)
from headwater.errors.requests import AnswerLost, Declined, Refused, RequestRefused, ServerUnavailable, TokensUnusable
from headwater.errors.sinks import (
    KeyRepeated,
    MessageRefused,
    RowRefused,
    SinksBehind,
    TableRemoved,
    TargetFailed,
    UnknownSink,
)
from headwater.errors.sources import (
    CaptureDropped,
    CaptureOvertaken,
    CaptureRefused,
    Missing,
    QueryFailed,
    SlotLost,
    SourceUnavailable,
)
from headwater.errors.spark import (
    FunctionFailed,
    OperatorBroken,
    OperatorFailed,
    SparkNotStarted,
    SparkStopped,
    WorkerLost,
)
from headwater.errors.storage import (
    ArchiveUnavailable,
    BlobMissing,
    DiskFull,
    FileUnreadable,
    StorageFailed,
    TooManyOpenFiles,
)
from headwater.errors.views import (
    AlreadyRunning,
    HistoryGone,
    InvariantBroken,
    NoCandidate,
    NotYet,
    RecordFailed,
    RecordsMissed,
    StateCorrupt,
    StoreBusy,
    StoreOutdated,
    StoreUnavailable,
    StoreUnusable,
    UnknownView,
    ViewChanged,
    ViewFailed,
    ViewNotKept,
    ViewPositionBetween,
    ViewPositionGone,
)

__all__ = [
    "AlreadyRunning",
    "AnswerLost",
    "ArchiveUnavailable",
    "BlobMissing",
    "BufferFull",
    "CaptureDropped",
    "CaptureOvertaken",
    "CaptureRefused",
    "CatalogUnusable",
    "Conflict",
    "Corrupt",
    "Declined",
    "Determinate",
    "DiskFull",
    "ExternalError",
    "Fenced",
    "FileUnreadable",
    "FunctionFailed",
    "GroupActive",
    "HeadwaterError",
    "HistoryGone",
    "Indeterminate",
    "InternalError",
    "InvalidName",
    "InvalidQuery",
    "InvalidRecords",
    "InvariantBroken",
    "KeyRepeated",
    "LogBusy",
    "LogReplaced",
    "LogUnavailable",
    "MessageRefused",
    "Missing",
    "NoCandidate",
    "NotYet",
    "OperatorBroken",
    "OperatorFailed",
    "OutOfSequence",
    "Overflow",
    "PositionGone",
    "QueryEnded",
    "QueryFailed",
    "QueryOutOfMemory",
    "QueryTooLarge",
    "QueryTooLong",
    "ReadOnly",
    "RecordFailed",
    "RecordsGone",
    "RecordsMissed",
    "Refused",
    "RejectedRecord",
    "RequestRefused",
    "RowRefused",
    "SchemaError",
    "ServerUnavailable",
    "SinksBehind",
    "SlotLost",
    "SourceUnavailable",
    "SparkNotStarted",
    "SparkStopped",
    "StateCorrupt",
    "StorageFailed",
    "StoreBusy",
    "StoreOutdated",
    "StoreUnavailable",
    "StoreUnusable",
    "TableRemoved",
    "TargetFailed",
    "TokensUnusable",
    "TombstonesGone",
    "TooManyOpenFiles",
    "TooManyRows",
    "TopicDiffers",
    "TopicExists",
    "UnknownFollower",
    "UnknownGroup",
    "UnknownSink",
    "UnknownTopic",
    "UnknownView",
    "UnsupportedQuery",
    "UsageError",
    "ViewChanged",
    "ViewFailed",
    "ViewNotKept",
    "ViewPositionBetween",
    "ViewPositionGone",
    "WorkerLost",
]
