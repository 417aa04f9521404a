"""What can go wrong with a request: in the server, in a client of it, and on the command line."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.errors.kinds import Determinate, ExternalError, HeadwaterError, Indeterminate, UsageError


class Refused(UsageError):
    """A request that the server does not carry out, with the status that says why."""

    code = "refused"

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
        **about: object,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status, self.code = status, code
        self.headers, self.about = dict(headers or {}), about


class TokensUnusable(ExternalError):
    """The file of tokens cannot be read; nobody gets in with one until it can."""

    code = "tokens_unusable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"The tokens in {path} cannot be used: {reason}.",
            hint="Check its permissions; if it is damaged, delete it and create the tokens again.",
        )
        self.path, self.reason = path, reason


class Declined(HeadwaterError):
    """The user was asked, and did not say yes."""

    code = "declined"


class RequestRefused(UsageError):
    """The server refused a request; `code` is the server's, `details` what else it said."""

    code = "request_refused"

    def __init__(self, message: str, *, status: int, code: str, hint: str, details: Mapping[str, object]) -> None:
        super().__init__(message, hint=hint)
        self.status, self.code, self.details = status, code, dict(details)


class ServerUnavailable(Determinate):
    """The server cannot be reached, or cannot do it now; `status` is 0 if it did not answer, `code` the server's."""

    code = "server_unavailable"

    def __init__(self, message: str, *, status: int, code: str, hint: str, details: Mapping[str, object]) -> None:
        super().__init__(message, hint=hint)
        self.status, self.code, self.details = status, code, dict(details)


class AnswerLost(Indeterminate):
    """The connection failed after a request was sent and before it was answered."""

    code = "answer_lost"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The server did not answer: {reason}.",
            hint="It may have happened. With a key, an append can be repeated safely.",
        )
        self.reason = reason
