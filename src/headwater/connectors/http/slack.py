"""A channel of Slack, by an incoming webhook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from headwater.connectors.http.channel import HttpChannel, Values
from headwater.connectors.templates import JsonTemplate, TextTemplate
from headwater.engine.sinks.channel import Event, dumps
from headwater.model.secrets import Secret

DEFAULT_TEXT = "*$_name* $_event: $_key $_row"


class Slack(HttpChannel):
    """Posts to the `url` of an incoming webhook of Slack.

    `text` is a template in Slack's own markup; in values, `&`, `<` and `>` are escaped, so that none mentions or links
    anything. `blocks` is a template of Block Kit, for which `text` is the notification.
    """

    kind: ClassVar[str] = "slack"

    def __init__(
        self,
        url: str | Secret,
        text: str = DEFAULT_TEXT,
        *,
        blocks: Sequence[Mapping[str, Any]] | None = None,
        on: Event | Iterable[Event] = ("added", "changed"),
        allow_private: bool = False,
    ) -> None:
        self._text = TextTemplate(text, _escaped)
        self._blocks = None if blocks is None else JsonTemplate(blocks, _escaped)
        super().__init__(url, self._posted, on=on, allow_private=allow_private)

    def _posted(self, values: Values) -> str:
        text = dumps(self._text.render(values))
        more = "" if self._blocks is None else f',"blocks":{self._blocks.render(values)}'
        return f'{{"text":{text}{more}}}'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
