"""JSON in which every name stands once: Python takes the last of several values, and loses the others silently."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FEW_LINES = 32
"""Up to here, what NumPy takes for a call is more than what it saves."""
_COLON, _QUOTE, _SPACE = ord(":"), ord('"'), ord(" ")


class DuplicateKey(ValueError):
    """An object has a name more than once."""

    def __init__(self, key: str) -> None:
        super().__init__(f"The name {key[:100]!r} is given more than once in one object")
        self.key = key


def loads(text: str | bytes, *, parse_float: Callable[[str], Any] | None = None) -> Any:
    """As `json.loads`. Raises `DuplicateKey`, and `ValueError` and `RecursionError` as that does."""
    return json.loads(text, parse_float=parse_float, object_pairs_hook=_object)


def duplicate_key(text: bytes) -> str | None:
    """The first name that an object of some JSON has more than once; None if there is none, or if it is no JSON."""
    try:
        _CHECKING.decode(text.decode())
    except DuplicateKey as error:
        return error.key
    except (ValueError, RecursionError):
        return None
    return None


def duplicate_keys(lines: Sequence[bytes], names: Sequence[int], *, all_json: bool) -> dict[int, str]:
    """By the number of a line, a name that it has more than once. Of each line this many names were read."""
    suspects = _suspects(lines, names)
    # A line that is no JSON could hide another one inside of its strings.
    if all_json and _are_innocent([lines[at] for at in suspects]):
        return {}
    return {at: key for at in suspects if (key := duplicate_key(lines[at])) is not None}


def _are_innocent(lines: Sequence[bytes]) -> bool:
    """Whether no line has duplicates, which is found out faster for all of them together."""
    try:
        _CHECKING.decode((b"[" + b",".join(lines) + b"]").decode())
    except (ValueError, RecursionError):
        return False
    return True


def _suspects(lines: Sequence[bytes], names: Sequence[int]) -> Sequence[int]:
    """The lines that may have a name more than once; read strictly, which takes much longer, they tell.

    Every name is followed by a colon, right behind its quote or after white space. The same may also stand inside of
    strings, and nested objects have names of their own: so a line may be suspected without a cause. But one with as
    many such colons as names has lost none.
    """
    text = b"\n".join(lines)
    if len(lines) < FEW_LINES:
        spaced = b" :" in text or b"\t:" in text or b"\r:" in text
        return range(len(lines)) if spaced or text.count(b'":') != sum(names) else ()
    signs = np.frombuffer(text, np.uint8)
    colons = np.flatnonzero(signs == _COLON)
    before = signs[colons - 1]
    after_name = (before == _QUOTE) | (before <= _SPACE)
    if np.count_nonzero(after_name) == sum(names):
        return ()
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)) + 1)
    counted = np.bincount(np.searchsorted(ends, colons[after_name], "right"), minlength=len(lines))
    found: list[int] = np.flatnonzero(counted != np.array(names)).tolist()
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = set[str]()
        for name, _ in pairs:
            if name in seen:
                raise DuplicateKey(name)
            seen.add(name)
    return found


def _check(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        _object(pairs)


_CHECKING = json.JSONDecoder(object_pairs_hook=_check)
