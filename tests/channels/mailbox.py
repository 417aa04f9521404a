"""A mail server in tests: aiosmtpd, which answers as it is told, with or without TLS and a login."""

from __future__ import annotations

import asyncio
import email
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from tests.channels.posts import HUSH

USER = "headwater"


@dataclass
class Mailbox:
    """The mails that came, in order. `answers` are given to DATA first; `refused` are answers by recipient."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    secure: list[bool] = field(default_factory=list)
    on_mail: Callable[[], None] = lambda: None

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.on_mail()
        if self.answers:
            return self.answers.pop(0)
        mail = email.message_from_bytes(envelope.content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.recipients.append(list(envelope.rcpt_tos))
        self.secure.append(server.transport.get_extra_info("ssl_object") is not None)
        return "250 OK"

    def ids(self) -> list[str]:
        return [str(mail["Message-ID"]) for mail in self.mails]


def text_of(mail: EmailMessage) -> str:
    part = mail.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def html_of(mail: EmailMessage) -> str:
    part = mail.get_body(("html",))
    assert part is not None
    return str(part.get_content())


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for localhost, signed by itself, and its key."""
    made, key = directory / "mail.pem", directory / "mail.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(made), "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


@contextmanager
def receiving_mail(tls: tuple[Path, Path] | None = None, *, implicit: bool = False, port: int = 0) -> Iterator[Mailbox]:
    """Receives mail within the block; with a certificate, over TLS and with a login."""
    box = Mailbox()

    def log_in(server: SMTP, session: Any, envelope: Any, mechanism: str, given: Any) -> AuthResult:
        known = isinstance(given, LoginPassword) and (given.login, given.password) == (USER.encode(), HUSH.encode())
        return AuthResult(success=known, handled=False)

    context: ssl.SSLContext | None = None
    options: dict[str, Any] = {}
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        options = {"authenticator": log_in}
        starttls = {"auth_required": True, "require_starttls": True, "tls_context": context}
        options |= {"auth_require_tls": False} if implicit else starttls
    loop = asyncio.new_event_loop()

    def session() -> SMTP:
        return SMTP(box, hostname="localhost", loop=loop, **options)

    serving = loop.create_server(session, "127.0.0.1", port, ssl=context if implicit else None)
    server = loop.run_until_complete(serving)
    box.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield box
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.run_until_complete(_ended(loop))
        loop.close()


async def _ended(loop: asyncio.AbstractEventLoop) -> None:
    tasks = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task(loop)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.01)
