"""What every error is one of: what the caller does next."""

from __future__ import annotations


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
