"""What can go wrong with the target of a sink."""

from __future__ import annotations

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
