"""How the command line fails: what the user is told, and the exit code that tells a script."""

from __future__ import annotations

import re

from headwater.cli.output import complain, hint, quote
from headwater.errors import (
    AlreadyRunning,
    CatalogUnusable,
    Corrupt,
    DiskFull,
    Fenced,
    GroupActive,
    HeadwaterError,
    InvalidQuery,
    InvalidRecords,
    NotYet,
    PositionGone,
    RecordsGone,
    StateCorrupt,
    StorageFailed,
    StoreUnusable,
    TopicExists,
    UnknownGroup,
    UsageError,
)

FAILED = 1
USAGE = 2
ALARM = 3
DAMAGED = 4
RUNS_ELSEWHERE = 5
INTERRUPTED = 130  # as a shell reports a program that ended with Ctrl-C
PIPE_CLOSED = 141  # as a shell reports a program whose reader went away

EXIT_CODES = {
    0: "It worked.",
    FAILED: "It could not be done: a record does not fit, the disk is full, another process holds the log; or "
    "`verify` has found a difference.",
    USAGE: "The command has to change: a wrong option, no such topic, a schema that cannot be evolved to, wrong SQL.",
    ALARM: "A group's lag is past a limit, an alert fires, or a sink is retrying or has given up.",
    DAMAGED: "Committed data is damaged.",
    RUNS_ELSEWHERE: "Another process runs the application: this one did not begin, or it ended because the other took "
    "over. A supervisor should not restart it.",
    INTERRUPTED: "Ctrl-C.",
    PIPE_CLOSED: "The program that was to read the output has ended (`| head`).",
}

# What to do next, where the library's own hint names something that the command line does otherwise.
_HINTS: dict[type[HeadwaterError], str] = {
    TopicExists: "`headwater log describe` shows it, `headwater log alter` changes it.",
    RecordsGone: "Read from the earliest record that is kept: --from earliest.",
    PositionGone: "Read up to a later position: --to position:N.",
    GroupActive: "Stop its consumers first, or add --force: what they have not committed is refused and comes again.",
    UnknownGroup: "`headwater log groups list` lists the groups of a log.",
    AlreadyRunning: "Stop it, or take over from it: `headwater run APP --take-over`. `--standby` waits for its end.",
    DiskFull: "Nothing is lost. Free some space, or lower the retention; the log continues.",
    NotYet: "`headwater run` brings the views there; look whether it runs.",
    StateCorrupt: "`headwater state APP --delete` deletes the state: nothing is lost, the next run rebuilds it.",
    StorageFailed: "Look at the owner and permissions of the log's directory, and at the health of the disk.",
}
# A setting as the library writes it: cleanup='compact' anywhere, or its name at the beginning of a sentence.
_SETTING = re.compile(r"\b(key|cleanup|start|end|dead_letter|event_time)='([^']*)'|^([a-z]+(?:_[a-z]+)+)(?= must )")
_OPTIONS = {"start": "--from", "end": "--to"}


def exit_code(error: Exception) -> int:
    """The exit code for an expected error."""
    if isinstance(error, Corrupt) or (isinstance(error, CatalogUnusable | StoreUnusable) and error.damaged):
        return DAMAGED
    if isinstance(error, AlreadyRunning) or (isinstance(error, Fenced) and error.kind == "pipeline"):
        return RUNS_ELSEWHERE
    if isinstance(error, UsageError) and not isinstance(error, InvalidRecords):
        return USAGE
    return FAILED


def explanation(error: Exception) -> tuple[str, str]:
    """One sentence and a hint, which may be empty."""
    if type(error) is UsageError:
        return as_options(error.message), as_options(error.hint)
    if isinstance(error, HeadwaterError):
        return error.message, _HINTS.get(type(error), error.hint)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}.", ""
    return str(error).rstrip(".") + ".", ""


def as_options(text: str) -> str:
    """A text of the library with its settings named as the command line names them."""
    return _SETTING.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    setting, value, subject = found.groups()
    name = setting or subject
    option = _OPTIONS.get(name, "--" + name.replace("_", "-"))
    return option if value is None else f"{option} {value}"


def report(error: Exception) -> int:
    """Tells the user, and returns the exit code."""
    sentence, next_step = explanation(error)
    complain(sentence)
    if isinstance(error, InvalidQuery) and error.excerpt:
        quote(error.excerpt)
    if next_step:
        hint(next_step)
    return exit_code(error)
