"""A channel of Microsoft Teams, by a workflow that takes webhook requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from headwater.connectors.http.channel import HttpChannel, Values
from headwater.connectors.templates import TextTemplate
from headwater.engine.sinks.channel import Event, dumps
from headwater.model.secrets import Secret

CARD = "application/vnd.microsoft.card.adaptive"
DEFAULT_TITLE = "$_name $_event"
DEFAULT_TEXT = "$_key $_row"


class Teams(HttpChannel):
    """Posts an adaptive card to the `url` of a workflow ("When a Teams webhook request is received").

    `title` and `text` are templates of plain text: nothing in a value is taken for markup.
    """

    kind: ClassVar[str] = "teams"

    def __init__(
        self,
        url: str | Secret,
        text: str = DEFAULT_TEXT,
        *,
        title: str = DEFAULT_TITLE,
        on: Event | Iterable[Event] = ("added", "changed"),
        allow_private: bool = False,
    ) -> None:
        self._title, self._text = TextTemplate(title), TextTemplate(text)
        super().__init__(url, self._card, on=on, allow_private=allow_private)

    def _card(self, values: Values) -> str:
        lines = [line for line in self._text.render(values).splitlines() if line.strip()]
        body = [_line(self._title.render(values), bold=True), *(_line(line) for line in lines)]
        card = {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": body,
        }
        attachment = {"contentType": CARD, "contentUrl": None, "content": card}
        return dumps({"type": "message", "attachments": [attachment]})


def _line(text: str, *, bold: bool = False) -> dict[str, object]:
    # A block of rich text: what a TextBlock holds is Markdown.
    run = {"type": "TextRun", "text": text, **({"weight": "Bolder"} if bold else {})}
    return {"type": "RichTextBlock", "inlines": [run]}
