"""Parameters of requests: declared once, documented and checked from the same declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headwater.errors import Refused
from headwater.server.failures import bad_request
from headwater.server.filters import PATTERN
from headwater.server.shapes import POSITION_PATTERN, Shape

Where = Literal["path", "query", "header"]
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,30})?([eE][+-]?\d{1,3})?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. A `repeated` one may be given several times, and its value is a list."""

    name: str
    shape: Shape
    about: str
    where: Where = "query"
    repeated: bool = False

    def to_openapi(self) -> dict[str, Any]:
        shape: Shape = {"type": "array", "items": self.shape} if self.repeated else self.shape
        return {
            "name": self.name,
            "in": self.where,
            "description": self.about,
            "required": self.where == "path",
            "schema": shape,
        }

    def value(self, text: str) -> Any:
        """What a text stands for. Raises `Refused`."""
        kind = self.shape["type"]
        if kind == "integer":
            return self._whole(text)
        if kind == "number":
            if not _NUMBER.fullmatch(text) or not self.shape["minimum"] <= float(text) <= self.shape["maximum"]:
                raise self._wrong(text)
            return float(text)
        if "enum" in self.shape and text not in self.shape["enum"]:
            raise self._wrong(text)
        if "pattern" in self.shape and not re.search(self.shape["pattern"], text):
            raise self._wrong(text)
        if not self.shape.get("minLength", 0) <= len(text) <= self.shape.get("maxLength", 10_000) or "\0" in text:
            raise self._wrong(text)
        return text

    def _whole(self, text: str) -> int:
        within = text.isascii() and text.isdigit() and len(text) <= 18
        if not within or not self.shape["minimum"] <= int(text) <= self.shape.get("maximum", 1 << 62):
            raise self._wrong(text)
        return int(text)

    def _wrong(self, text: str) -> Refused:
        return bad_request(f"{text[:100]!r} cannot be the parameter {self.name!r}.", self.about)


def values(declared: Sequence[Parameter], given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The parameters of a query string, None or an empty list for those that are missing. Raises `Refused`."""
    known = {one.name: one for one in declared if one.where == "query"}
    found: dict[str, Any] = {one.name: [] if one.repeated else None for one in known.values()}
    for name, text in given:
        if name not in known:
            raise bad_request(f"There is no parameter {name[:100]!r}.", f"Parameters: {', '.join(known) or 'none'}.")
        if known[name].repeated:
            found[name].append(known[name].value(text))
        elif found[name] is not None:
            raise bad_request(f"The parameter {name!r} is given twice.")
        else:
            found[name] = known[name].value(text)
    return found


def header_values(declared: Sequence[Parameter], given: Mapping[str, str]) -> dict[str, Any]:
    """The declared headers, None for those that are missing. Raises `Refused`."""
    texts = {one.name: given.get(one.name.lower()) for one in declared if one.where == "header"}
    known = {one.name: one for one in declared}
    return {name: None if text is None else known[name].value(text) for name, text in texts.items()}


def path(name: str, about: str) -> Parameter:
    return Parameter(name, {"type": "string", "minLength": 1, "maxLength": 400}, about, "path")


def limit(most: int) -> Parameter:
    shape: Shape = {"type": "integer", "minimum": 1, "maximum": most, "default": 100}
    return Parameter("limit", shape, "At most this many.")


TOPIC = path("topic", "The topic's name.")
VIEW = path("view", "The view's name.")
AT_LEAST = Parameter(
    "at_least", {"type": "string", "pattern": POSITION_PATTERN}, "Wait until this position of the log is reached."
)
WAIT = Parameter("wait", {"type": "number", "minimum": 0, "maximum": 86_400}, "Maximum wait in seconds; then 504.")
READING = (AT_LEAST, WAIT)
AT = Parameter(
    "at", {"type": "string", "pattern": POSITION_PATTERN}, "Read it as it was at this position, if that is kept."
)
WHERE = Parameter(
    "where", {"type": "string", "pattern": PATTERN}, "A condition, column:operator:value; all must hold.",
    repeated=True,
)  # fmt: skip
