"""What can go wrong with the target of a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from headwater.errors.kinds import Indeterminate

FailureKind = Literal["passing", "refused", "gone"]


class TargetFailed(Indeterminate):
    """A delivery did not arrive, or may not have. `reason` shows neither a secret nor what the target answered.

    passing  nobody answers, or cannot now: it may well work later
    refused  it will hardly work before somebody changes something
    gone     the target wants nothing more
    """

    code = "target_failed"

    def __init__(self, reason: str, kind: FailureKind = "passing", retry_after: float | None = None) -> None:
        super().__init__(f"{reason}.", hint="It is tried again.")
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
