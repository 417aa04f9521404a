"""What the server answers to a request that it does not carry out, and the command line without consent."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.errors.kinds import ExternalError, HeadwaterError, UsageError


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
