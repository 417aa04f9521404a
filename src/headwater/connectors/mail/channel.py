"""Mail as a channel: to some recipients, through an SMTP server, one by one or as digests."""

from __future__ import annotations

import html as markup
from collections.abc import Iterable, Sequence
from email.headerregistry import Address
from email.utils import parseaddr
from pathlib import Path
from typing import ClassVar, get_args
from urllib.parse import unquote, urlsplit

from headwater.connectors.http.channel import events_of
from headwater.connectors.mail.smtp import Server, SmtpSender, Tls
from headwater.connectors.mail.writing import DEFAULT_SUBJECT, Writing
from headwater.connectors.templates import TextTemplate
from headwater.engine.sinks.channel import Channel, Event, Sender
from headwater.errors import UsageError
from headwater.model.durations import Duration, duration_of
from headwater.model.secrets import Secret, reveal

_SCHEMES: dict[str, tuple[int, Tls]] = {"smtp": (587, "starttls"), "smtps": (465, "implicit")}
_HINT = "It is like smtp://user@mail.example.com:587, or smtps://… for TLS from the start."


class Mail(Channel):
    """Sends mails to one or more addresses, as text and HTML, with a Message-ID that stays the same.

    `smtp` is the URL of a server: `smtp://` with STARTTLS, or `smtps://` with TLS from the start; `tls="none"` sends in
    the clear, and then there is no login. The `password` goes with the URL's user. `sender` is the address mails come
    from, by default headwater@ and the recipient's domain. `subject`, `text` and `html` are templates for one notice;
    with a `digest` notices are gathered for so long, and one mail has all of them.
    """

    kind: ClassVar[str] = "mail"
    takes_several: ClassVar[bool] = True

    def __init__(
        self,
        to: str | Sequence[str],
        *,
        smtp: str | Secret,
        password: str | Secret | None = None,
        sender: str | None = None,
        subject: str = DEFAULT_SUBJECT,
        text: str | None = None,
        html: str | None = None,
        digest: Duration | None = None,
        on: Event | Iterable[Event] = ("added", "changed"),
        tls: Tls | None = None,
        ca_file: str | Path | None = None,
    ) -> None:
        recipients = tuple(_address(each) for each in ([to] if isinstance(to, str) else to))
        if not recipients:
            raise UsageError("A mail needs a recipient.", hint='Write hw.sinks.Mail("ops@example.com", …).')
        if tls is not None and tls not in get_args(Tls):
            raise UsageError(f"Invalid tls={tls!r}.", hint=f"Use one of {', '.join(get_args(Tls))}.")
        self._smtp, self._password, self._tls, self._ca_file = smtp, password, tls, ca_file
        self._writing = Writing(
            _address(sender) if sender else Address("headwater", "headwater", recipients[0].domain),
            recipients,
            TextTemplate(subject),
            None if text is None else TextTemplate(text),
            None if html is None else TextTemplate(html, markup.escape),
        )
        self.events = events_of(on)
        self.digest = (None if digest is None else duration_of("digest", digest)) or None
        if not isinstance(smtp, Secret):
            self._server(check_password=not isinstance(password, Secret))

    @property
    def address(self) -> str:
        recipients = ", ".join(each.addr_spec for each in self._writing.recipients)
        try:
            return f"{recipients} by {self._server(check_password=False)}"
        except UsageError:
            return f"{recipients} by {self._smtp if isinstance(self._smtp, Secret) else 'mail'}"

    def open(self) -> Sender:
        return SmtpSender(self._server(check_password=True), self._writing)

    def _server(self, *, check_password: bool) -> Server:
        """The server that the URL names. Raises `UsageError`, which shows neither the URL nor the password."""
        try:
            parts = urlsplit(reveal(self._smtp))
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise UsageError("The URL of the SMTP server is not valid.", hint=_HINT) from None
        if parts.scheme not in _SCHEMES or not host or parts.path.strip("/") or parts.query:
            raise UsageError("The URL of the SMTP server is not valid.", hint=_HINT)
        usual, tls = _SCHEMES[parts.scheme]
        user, tls = unquote(parts.username or ""), self._tls or tls
        if user and tls == "none":
            raise UsageError("A password is only sent over TLS.", hint="Leave out the user, or tls='none'.")
        password = unquote(parts.password or "")
        if check_password and user:
            password = reveal(self._password) if self._password is not None else password
            if not password:
                raise UsageError(
                    "The SMTP server has a user but no password.", hint='Write password=hw.sinks.Secret.env("…").'
                )
        return Server(host, port or usual, tls, user, password, None if self._ca_file is None else str(self._ca_file))


def _address(text: str) -> Address:
    """An address, with or without a name before it. Raises `UsageError`."""
    name, address = parseaddr(text)
    if address.count("@") != 1 or not address.isascii() or any(each.isspace() for each in address):
        raise UsageError(
            f"{text!r} is not an email address.", hint="Write it like ops@example.com, or Ops <ops@example.com>."
        )
    try:
        return Address(name, addr_spec=address)
    except (ValueError, IndexError):
        raise UsageError(f"{text!r} is not an email address.", hint="Write it like ops@example.com.") from None
