"""One mail to an SMTP server: within a time, over TLS unless it is told otherwise, and what its answers mean."""

from __future__ import annotations

import smtplib
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Literal

from headwater.connectors.mail.writing import Writing
from headwater.engine.sinks.channel import Message, Sender
from headwater.errors import MessageRefused, TargetFailed

ANSWER_SECONDS_MAX = 20.0
SEND_SECONDS_MAX = 60.0
"""For one mail, however slowly the server answers."""
Tls = Literal["starttls", "implicit", "none"]
_GREETING, _PERMANENT = 220, 500


@dataclass(frozen=True, slots=True)
class Server:
    """An SMTP server. Its text is its name and port."""

    host: str
    port: int
    tls: Tls
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    ca_file: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class SmtpSender(Sender):
    """Sends mails, each over a connection of its own. A mail that only some recipients took is sent to the others."""

    def __init__(self, server: Server, writing: Writing, seconds_max: float = SEND_SECONDS_MAX) -> None:
        self._server, self._writing, self._seconds_max = server, writing, seconds_max
        self._context = None if server.tls == "none" else ssl.create_default_context(cafile=server.ca_file)
        self._left: tuple[str, list[str]] = ("", [])
        self._smtp: smtplib.SMTP | None = None
        self._closed = False

    def send(self, message: Message) -> None:
        mail = self._writing.mail(message)
        known, left = self._left
        recipients = left if known == message.id else [each.addr_spec for each in self._writing.recipients]
        limit = threading.Timer(self._seconds_max, self._abort)
        limit.daemon = True
        limit.start()
        try:
            refused = self._deliver(mail, recipients)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise self._failure(error) from None
        finally:
            limit.cancel()
            self._hang_up()
        if refused:
            self._partly(message, refused, len(recipients))

    def close(self) -> None:
        self._closed = True
        self._abort()

    def _deliver(self, mail: EmailMessage, recipients: list[str]) -> Mapping[str, tuple[int, bytes]]:
        """The recipients that the server refuses, while it takes the mail for others."""
        server, domain = self._server, self._writing.sender.domain
        if self._context is not None and server.tls == "implicit":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                local_hostname=domain, timeout=ANSWER_SECONDS_MAX, context=self._context
            )
        else:
            smtp = smtplib.SMTP(local_hostname=domain, timeout=ANSWER_SECONDS_MAX)
        # For the name in the certificate, which `connect` alone does not keep.
        smtp._host = server.host  # type: ignore[attr-defined]  # noqa: SLF001
        self._smtp = smtp
        if self._closed:
            raise smtplib.SMTPServerDisconnected("closed")
        code, _ = smtp.connect(server.host, server.port)
        if code != _GREETING:
            raise smtplib.SMTPConnectError(code, b"")
        if server.tls == "starttls":
            smtp.starttls(context=self._context)
        if server.user:
            smtp.login(server.user, server.password)
        return smtp.send_message(mail, self._writing.sender.addr_spec, recipients)

    def _partly(self, message: Message, refused: Mapping[str, tuple[int, bytes]], number: int) -> None:
        later = [address for address, (code, _) in refused.items() if code < _PERMANENT]
        said = f"{self._server} refuses {len(refused)} of {number} recipients"
        if later:
            self._left = (message.id, later)
            raise TargetFailed(f"{said} for now")
        self._left = ("", [])
        raise MessageRefused(f"{said}, and has taken the mail for the others")

    def _failure(self, error: Exception) -> TargetFailed:
        server = self._server
        if isinstance(error, smtplib.SMTPRecipientsRefused):
            codes = [code for code, _ in error.recipients.values()]
            return _judged(f"{server} answers {min(codes)} to the recipients", min(codes))
        if isinstance(error, smtplib.SMTPAuthenticationError):
            return _judged(f"{server} answers {error.smtp_code} to the login", error.smtp_code)
        if isinstance(error, smtplib.SMTPDataError) and error.smtp_code >= _PERMANENT:
            return MessageRefused(f"{server} answers {error.smtp_code} to the mail")
        if isinstance(error, smtplib.SMTPResponseException) and error.smtp_code > 0:
            return _judged(f"{server} answers {error.smtp_code}", error.smtp_code)
        if isinstance(error, smtplib.SMTPNotSupportedError):
            return TargetFailed(f"{server} does not offer what is needed: TLS, or a login", "refused")
        if isinstance(error, ssl.SSLCertVerificationError):
            return TargetFailed(f"The certificate of {server} is not valid: {error.verify_message}", "refused")
        if isinstance(error, smtplib.SMTPException):
            return TargetFailed(f"{server} closed the connection")
        words = "it takes too long" if isinstance(error, TimeoutError) else getattr(error, "strerror", None)
        return TargetFailed(f"{server} does not answer: {words or 'the connection has ended'}")

    def _abort(self) -> None:
        found = self._smtp.sock if self._smtp is not None else None
        if found is not None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    def _hang_up(self) -> None:
        smtp, self._smtp = self._smtp, None
        if smtp is not None:
            # The mail has been answered: whether the server hears that we leave does not matter.
            with suppress(smtplib.SMTPException, OSError):
                if smtp.sock is not None:
                    smtp.sock.settimeout(1)
                    smtp.quit()
            smtp.close()


def _judged(reason: str, code: int) -> TargetFailed:
    return TargetFailed(reason, "refused" if code >= _PERMANENT else "passing")
