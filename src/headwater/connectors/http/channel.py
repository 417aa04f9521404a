"""Any program that takes a POST as a channel: a template is the body, and each message comes with a stable id."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar
from urllib.parse import quote_plus

from headwater.connectors.templates import Body, JsonTemplate, TextTemplate, unchanged, values_of
from headwater.connectors.webhooks.posting import POST_SECONDS_MAX, Poster
from headwater.connectors.webhooks.target import Target, parse_target
from headwater.engine.sinks.channel import Channel, Event, Message, Sender
from headwater.errors import UsageError
from headwater.model.secrets import Secret, reveal

AGENT = "headwater"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
ROW_EVENTS: tuple[Event, ...] = ("added", "changed", "removed")
DEFAULT_BODY = {
    "id": "$_id", "name": "$_name", "view": "$_view", "event": "$_event", "key": "$_key", "position": "$_position",
    "timestamp": "$_at", "row": "$_row",
}  # fmt: skip
Values = Mapping[str, object]
Render = Callable[[Values], str]


def events_of(on: Event | Iterable[Event]) -> frozenset[Event]:
    """The events that a caller wants to send. Raises `UsageError`."""
    names: frozenset[Event] = frozenset([on] if isinstance(on, str) else on)
    wrong = names.difference(ROW_EVENTS)
    if wrong or not names:
        said = f"Invalid on={min(wrong)!r}" if wrong else "on= has no event"
        raise UsageError(f"{said}: expected some of {', '.join(ROW_EVENTS)}.", hint='Write on=["added", "removed"].')
    return names


class HttpChannel(Channel):
    """What all channels over HTTP have in common; `allow_private` is as for webhooks."""

    def __init__(
        self,
        url: str | Secret,
        render: Render,
        *,
        on: Event | Iterable[Event],
        content_type: str = JSON,
        headers: Mapping[str, str | Secret] | None = None,
        allow_private: bool = False,
    ) -> None:
        self.events = events_of(on)
        self._url, self._render, self._allow_private = url, render, allow_private
        self._headers = {"content-type": content_type, "user-agent": AGENT, **(headers or {})}
        _check_headers(self._headers)
        if not isinstance(url, Secret):
            self._target()

    @property
    def address(self) -> str:
        try:
            return str(self._target())
        except UsageError:
            return repr(self._url) if isinstance(self._url, Secret) else self.kind

    def open(self) -> Sender:
        headers = {name: reveal(value) for name, value in self._headers.items()}
        _check_headers(headers)
        return HttpSender(Poster(self._target(), POST_SECONDS_MAX), headers, self._render)

    def _target(self) -> Target:
        return parse_target(reveal(self._url), allow_private=self._allow_private)


class Http(HttpChannel):
    """Posts a message for each row of a view that was added, changed or removed, or for each event of an alert.

    `body` is a template: for JSON a dictionary, a list or a text; for another `content_type` a text, in whose form the
    values are escaped. Without one it is a JSON object with all that is known. The header `Idempotency-Key` has the id
    of the message, which stays the same however often it is sent. `on` says which events of rows are sent.
    """

    kind: ClassVar[str] = "http"

    def __init__(
        self,
        url: str | Secret,
        body: Body | None = None,
        *,
        content_type: str = JSON,
        headers: Mapping[str, str | Secret] | None = None,
        on: Event | Iterable[Event] = ROW_EVENTS,
        allow_private: bool = False,
    ) -> None:
        render = _render_of(DEFAULT_BODY if body is None else body, content_type)
        super().__init__(url, render, on=on, content_type=content_type, headers=headers, allow_private=allow_private)


class HttpSender(Sender):
    """Posts one message at a time."""

    def __init__(self, poster: Poster, headers: Mapping[str, str], render: Render) -> None:
        self._poster, self._headers, self._render = poster, headers, render

    def send(self, message: Message) -> None:
        (notice,) = message.notices
        body = self._render(values_of(message.id, notice)).encode("utf-8", "replace")
        failure = self._poster.post({**self._headers, "idempotency-key": message.id}, body)
        if failure is not None:
            raise failure

    def close(self) -> None:
        self._poster.close()


def _render_of(body: Body, content_type: str) -> Render:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == JSON or kind.endswith("+json"):
        return JsonTemplate(body).render
    if not isinstance(body, str):
        raise UsageError(
            f"A body of type {kind!r}must be text.", hint="Dictionaries and lists are written as JSON only."
        )
    if kind == FORM:
        return TextTemplate(body, quote_plus).render
    marked_up = kind in ("text/html", "text/xml", "application/xml") or kind.endswith("+xml")
    return TextTemplate(body, html.escape if marked_up else unchanged).render


def _check_headers(headers: Mapping[str, str | Secret]) -> None:
    """Raises `UsageError`, which shows no value, for what is not one line of ASCII."""
    for name, value in headers.items():
        text = "" if isinstance(value, Secret) else value
        if not name.isascii() or not text.isascii() or any(each < " " or each == "\x7f" for each in name + text):
            raise UsageError(
                f"The header {name!r} has characters that headers cannot have.", hint="Use one line of ASCII."
            )
        if name.lower() in ("host", "content-length", "connection", "idempotency-key"):
            raise UsageError(f"The header {name!r} is set by the sender.", hint="Leave it out.")
