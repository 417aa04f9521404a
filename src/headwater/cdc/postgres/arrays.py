"""Arrays as PostgreSQL writes them: `{1,NULL,"a b"}`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ELEMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\s](?:[^",{}]*[^",{}\s])?))\s*([,}])', re.DOTALL | re.ASCII)
_SPECIAL = re.compile(r'[\s"\\{},]', re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_array(text: str) -> list[str | None] | None:
    """The elements of an array of one dimension that begins at 1; None for any other array, and for what is none."""
    if not text.startswith("{") or not text.endswith("}"):
        return None
    if text == "{}":
        return []
    elements: list[str | None] = []
    at = 1
    while at < len(text):
        found = _ELEMENT.match(text, at)
        if found is None:
            return None
        quoted, plain, delimiter = found.groups()
        if quoted is not None:
            elements.append(_ESCAPED.sub(r"\1", quoted))
        else:
            elements.append(None if plain == "NULL" else plain)
        at = found.end()
        if delimiter == "}":
            break
    return elements if at == len(text) else None


def format_array(elements: Sequence[str | None]) -> str:
    """An array of one dimension as PostgreSQL writes it."""
    return "{" + ",".join("NULL" if each is None else _quoted(each) for each in elements) + "}"


def _quoted(element: str) -> str:
    if element and element.upper() != "NULL" and not _SPECIAL.search(element):
        return element
    return '"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"'
