"""What can go wrong with the target of a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from headwater.errors.kinds import Determinate, Indeterminate, UsageError

FailureKind = Literal["passing", "refused", "gone"]


class TargetFailed(Indeterminate):
    """A delivery did not arrive, or may not have. `reason` shows neither a secret nor what the target answered.

    passing  nobody answers, or cannot now: it may well work later
    refused  it will hardly work before somebody changes something
    gone     the target wants nothing more
    """

    code = "target_failed"

    def __init__(self, reason: str, kind: FailureKind = "passing", retry_after: float | None = None) -> None:
        super().__init__(f"{reason}.", hint="It will be retried.")
        self.reason, self.kind, self.retry_after = reason, kind, retry_after


class TableRemoved(TargetFailed):
    """The table of a target, or the one with its position, does not exist any more."""

    code = "table_removed"

    def __init__(self) -> None:
        super().__init__("The table was removed")


class MessageRefused(TargetFailed):
    """A receiver refuses this message, and would take others: sending it again is useless."""

    code = "message_refused"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "refused")


class KeyRepeated(TargetFailed):
    """A view that is sunk by key has several rows of one key, so no target can hold it. `keys` has some of them."""

    code = "key_repeated"

    def __init__(self, view: str, key: Sequence[str], keys: Sequence[Mapping[str, object]]) -> None:
        shown = "; ".join(", ".join(f"{name}={value!r}" for name, value in each.items()) for each in keys)
        super().__init__(f"View {view!r} has more than one row with the key {shown}", "gone")
        self.hint = f"Group the view by {', '.join(key)}, or give the sink a key that tells its rows apart."
        self.view, self.key, self.keys = view, tuple(key), tuple(keys)


class RowRefused(UsageError):
    """A target refuses a row that was sent again. `reason` is what the target says."""

    code = "row_refused"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The target refuses the row again: {reason.rstrip('.')}.", hint="Fix the row, or the target.")
        self.reason = reason


class UnknownSink(UsageError):
    code = "unknown_sink"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        shown = ", ".join(sorted(known)[:10]) or "none"
        super().__init__(f"There is no sink {name!r}.", hint=f"Sinks: {shown}.")
        self.name = name


class SinksBehind(Determinate):
    """Sinks have not delivered a position in time. `behind` has how far each of them is, None if nowhere yet."""

    code = "sinks_behind"

    def __init__(self, wanted: str, behind: Mapping[str, str | None], seconds: float) -> None:
        shown = ", ".join(
            f"{name} is at {'no position yet' if position is None else f'position {position}'}"
            for name, position in behind.items()
        )
        super().__init__(
            f"Not every sink reached position {wanted} within {seconds:g} s: {shown}.",
            hint="What was written is durable; check the status of the sinks, and wait again.",
        )
        self.wanted, self.behind, self.seconds = wanted, dict(behind), seconds
