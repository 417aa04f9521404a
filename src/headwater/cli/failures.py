"""How the command line fails: what the user is told, and the exit code that tells a script."""

from __future__ import annotations

from headwater.errors import (
    CatalogUnusable,
    Corrupt,
    HeadwaterError,
    InvalidRecords,
    PositionGone,
    RecordsGone,
    TopicExists,
    UnknownGroup,
    UsageError,
)

FAILED = 1
USAGE = 2
ALARM = 3
DAMAGED = 4
INTERRUPTED = 130  # as a shell reports a program that ended with Ctrl-C
PIPE_CLOSED = 141  # as a shell reports a program whose reader went away

EXIT_CODES = {
    0: "It worked.",
    FAILED: "It could not be done: a record does not fit, the disk is full, another process holds the log.",
    USAGE: "The command has to change: a wrong option, no such topic, a schema that can not be evolved to.",
    ALARM: "A group's lag is past a limit.",
    DAMAGED: "Committed data is damaged.",
    INTERRUPTED: "Ctrl-C.",
    PIPE_CLOSED: "The program that was to read the output has ended (`| head`).",
}

# What to do next, where the library's own hint names something that the command line does otherwise.
_HINTS: dict[type[HeadwaterError], str] = {
    TopicExists: "`headwater log describe` shows it, `headwater log alter` changes it.",
    RecordsGone: "Read from the earliest record that is kept: --from earliest.",
    PositionGone: "Read up to a later position: --to position:N.",
    UnknownGroup: "`headwater log groups` lists the groups of a log.",
}


class Declined(HeadwaterError):
    """The user was asked, and did not say yes."""

    code = "declined"


def exit_code(error: Exception) -> int:
    """The exit code for an expected error."""
    if isinstance(error, Corrupt) or (isinstance(error, CatalogUnusable) and error.damaged):
        return DAMAGED
    if isinstance(error, UsageError) and not isinstance(error, InvalidRecords):
        return USAGE
    return FAILED


def explanation(error: Exception) -> tuple[str, str]:
    """One sentence and a hint, which may be empty."""
    if isinstance(error, HeadwaterError):
        return error.message, _HINTS.get(type(error), error.hint)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}.", ""
    return f"{error}.", ""
