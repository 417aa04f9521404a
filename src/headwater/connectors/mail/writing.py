"""What a mail looks like: its subject, its text and its HTML, made of one or more notices."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

from headwater.connectors.templates import TextTemplate, text_of, values_of
from headwater.engine.sinks.channel import Message, Notice

DEFAULT_SUBJECT = "$_name: $_key $_event"
SUBJECT_LENGTH_MAX = 200
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+")
_CELL = "border:1px solid #ccc;padding:4px 8px;text-align:left"


@dataclass(frozen=True, slots=True)
class Writing:
    """How mails are written. Without `text` or `html` each notice is shown with all of its columns."""

    sender: Address
    recipients: tuple[Address, ...]
    subject: TextTemplate
    text: TextTemplate | None
    html: TextTemplate | None

    def mail(self, message: Message) -> EmailMessage:
        """The mail of a message: the same one each time, with the same Message-ID."""
        values = [values_of(message.id, notice) for notice in message.notices]
        mail = EmailMessage()
        mail["Subject"] = _one_line(self._subject(message.notices, values))
        mail["From"] = self.sender
        mail["To"] = self.recipients
        mail["Date"] = format_datetime(datetime.fromisoformat(message.notices[-1].at).astimezone(UTC))
        mail["Message-ID"] = f"<{_NOT_IN_ID.sub('-', message.id)}@{self.sender.domain}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content("\n\n".join(self._texts(message.notices, values)) + "\n")
        mail.add_alternative(self._html(message.notices, values), subtype="html")
        return mail

    def _subject(self, notices: Sequence[Notice], values: Sequence[Mapping[str, object]]) -> str:
        if len(notices) == 1:
            return self.subject.render(values[0])
        counts = Counter(notice.event for notice in notices)
        return f"{notices[0].name}: " + ", ".join(f"{count} {event}" for event, count in counts.items())

    def _texts(self, notices: Sequence[Notice], values: Sequence[Mapping[str, object]]) -> list[str]:
        if self.text is not None:
            return [self.text.render(each) for each in values]
        return [_as_text(notice) for notice in notices]

    def _html(self, notices: Sequence[Notice], values: Sequence[Mapping[str, object]]) -> str:
        if self.html is not None:
            parts = [self.html.render(each) for each in values]
        elif self.text is not None:
            parts = [f"<p>{html.escape(text)}</p>".replace("\n", "<br>\n") for text in self._texts(notices, values)]
        else:
            parts = [_as_table(notices)]
        body = "\n".join(parts)
        return f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head><body>\n{body}\n</body></html>\n'


def _as_text(notice: Notice) -> str:
    head = f"{notice.event}: {notice.key}" if notice.key else notice.event
    return "\n".join([f"{head} ({notice.at})", *(f"  {name}: {text_of(value)}" for name, value in notice.row.items())])


def _as_table(notices: Sequence[Notice]) -> str:
    columns = list(dict.fromkeys(name for notice in notices for name in notice.row))
    head = "".join(_cell("th", name) for name in ("event", "at", *columns))
    lines = [
        "".join(_cell("td", text_of(value)) for value in (each.event, each.at, *(each.row.get(c) for c in columns)))
        for each in notices
    ]
    rows = "\n".join(f"<tr>{line}</tr>" for line in (head, *lines))
    return f'<table style="border-collapse:collapse;font-family:sans-serif">\n{rows}\n</table>'


def _cell(kind: str, text: str) -> str:
    return f'<{kind} style="{_CELL}">{html.escape(text)}</{kind}>'


def _one_line(text: str) -> str:
    """A text as a header can have it: without control characters, and not too long."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(plain.split())[:SUBJECT_LENGTH_MAX]
