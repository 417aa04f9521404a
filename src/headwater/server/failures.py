"""How the server fails: one body for every error, and the status that says what the client should do next."""

from __future__ import annotations

from headwater.errors import (
    AlreadyRunning,
    BufferFull,
    Conflict,
    Determinate,
    DiskFull,
    Fenced,
    GroupActive,
    HeadwaterError,
    InternalError,
    InvalidQuery,
    InvalidRecords,
    NoCandidate,
    NotYet,
    PositionGone,
    QueryEnded,
    RecordFailed,
    RecordsGone,
    Refused,
    RowRefused,
    SinksBehind,
    TargetFailed,
    UnknownFollower,
    UnknownGroup,
    UnknownSink,
    UnknownTopic,
    UnknownView,
    UsageError,
)

REJECTED_SHOWN_MAX = 100
"""Records of one append whose faults are told."""

# The first class that fits decides, so that the special ones come before the general ones.
STATUS: tuple[tuple[type[HeadwaterError], int], ...] = (
    (InvalidRecords, 422),
    (InvalidQuery, 422),
    (QueryEnded, 422),
    (UnknownTopic, 404),
    (UnknownView, 404),
    (NoCandidate, 404),
    (UnknownGroup, 404),
    (UnknownFollower, 404),
    (UnknownSink, 404),
    (RowRefused, 422),
    (RecordsGone, 410),
    (PositionGone, 410),
    (Fenced, 409),
    (GroupActive, 409),
    (AlreadyRunning, 409),
    (Conflict, 409),
    (BufferFull, 429),
    (UsageError, 400),
    (NotYet, 504),
    (SinksBehind, 504),
    (TargetFailed, 502),
    (DiskFull, 507),
    (Determinate, 503),
    (HeadwaterError, 500),
)


def bad_request(message: str, hint: str = "") -> Refused:
    """A parameter or a body that is not what it has to be."""
    return Refused(400, "bad_request", message, hint=hint)


def too_large(what: str, limit: int, unit: str) -> Refused:
    """More than the server takes at once."""
    return Refused(413, "too_large", f"{what} is larger than {limit:,} {unit}.", hint="Send it in several parts.")


def too_many(what: str) -> Refused:
    """As many at once as the server allows."""
    return Refused(
        429,
        "too_many",
        f"There are too many {what} at the moment.",
        hint="Try again soon.",
        headers={"Retry-After": "1"},
    )


def no_token(message: str) -> Refused:
    """Nobody says who asks, or nobody knows who that is."""
    return Refused(
        401,
        "no_token",
        message,
        hint="Send it as Authorization: Bearer …; `headwater token` creates one.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def status_of(error: HeadwaterError) -> int:
    """The status of an answer that says that this went wrong."""
    if isinstance(error, Refused):
        return error.status
    return next(status for kind, status in STATUS if isinstance(error, kind))


def message_of(error: HeadwaterError) -> str:
    """What a client is told: nothing of the inside of a bug."""
    return "Something is wrong in headwater itself." if isinstance(error, InternalError) else error.message


def error_body(error: HeadwaterError) -> dict[str, object]:
    """The body of every answer that is an error."""
    about: dict[str, object] = {"code": error.code, "message": message_of(error), "hint": error.hint}
    if isinstance(error, InternalError):
        about["hint"] = "The server's log has more."
    if isinstance(error, InvalidRecords):
        about |= {
            "topic": error.topic,
            "rejected": len(error.rejected),
            "records": [
                {"index": one.index, "field": one.field, "expected": one.expected, "got": one.got, "reason": one.reason}
                for one in error.rejected[:REJECTED_SHOWN_MAX]
            ],
        }
    elif isinstance(error, NotYet):
        about["position"] = None if error.position is None else str(error.position)
    elif isinstance(error, SinksBehind):
        about |= {"position": error.wanted, "sinks": dict(error.behind), "seconds": error.seconds}
    elif isinstance(error, InvalidQuery):
        about |= {"line": error.line, "column": error.column, "excerpt": error.excerpt}
    elif isinstance(error, GroupActive):
        about["members"] = list(error.members)
    elif isinstance(error, QueryEnded):
        about["limit"] = error.limit
    elif isinstance(error, PositionGone):
        about["earliest"] = str(error.earliest)
    elif isinstance(error, RecordFailed):
        about |= {"view": error.view, "topic": error.topic, "partition": error.partition, "offset": error.offset}
    elif isinstance(error, Refused):
        about |= error.about
    return {"error": about}
