"""The story of a view: which rows it has had at which version, to judge what a target shows."""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_left
from collections import defaultdict
from random import Random

KEYS = 300
CHANGED_MAX = 60
_ABSENT: str | None = None

Rows = dict[int, str]


def checksum(rows: Rows) -> str:
    """A checksum over all rows, in the order of their keys."""
    return hashlib.sha256(repr(sorted(rows.items())).encode()).hexdigest()[:16]


class Story:
    """The versions of a view, and what each of its keys had. One thread adds versions, others may ask.

    Even keys have a text only once, so that every step back shows. The texts of odd keys come back, so that a change
    that arrived in part and was taken back shows, too.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self.rows: Rows = {}
        self.version = 0
        self._versions: dict[str, list[int]] = {checksum({}): [0]}
        self._texts: dict[int, list[tuple[int, str | None]]] = defaultdict(lambda: [(0, _ABSENT)])

    def next_change(self, chance: Random, changed_max: int = CHANGED_MAX) -> dict[int, str | None]:
        """New texts for some keys (None: the row is gone), which are noted as the next version."""
        with self._turn:
            self.version += 1
            keys = range(KEYS) if self.version == 1 else chance.sample(range(KEYS), chance.randint(1, changed_max))
            change = {key: self._text(key, chance) for key in keys}
            for key, text in change.items():
                self._texts[key].append((self.version, text))
                if text is None:
                    self.rows.pop(key, None)
                else:
                    self.rows[key] = text
            self._versions.setdefault(checksum(self.rows), []).append(self.version)
            return change

    def _text(self, key: int, chance: Random) -> str | None:
        if chance.random() < 0.2:
            return None
        return f"text {self.version}" if key % 2 == 0 else chance.choice("abc")

    def versions_of(self, rows: Rows) -> list[int]:
        """The versions that have exactly these rows."""
        with self._turn:
            return list(self._versions.get(checksum(rows), ()))

    def version_of_text(self, key: int, text: str | None, since: int) -> int | None:
        """The first version, from one on, at which a key has a text; None if there is none."""
        with self._turn:
            held = self._texts[key]
            at = bisect_left(held, since, key=lambda each: each[0])
            # What it had when that version began.
            if at == len(held) or held[at][0] > since:
                at -= 1
            return next((max(version, since) for version, found in held[at:] if found == text), None)


class Witness:
    """Looks at what a target shows, again and again, and raises `AssertionError` for what it must never show."""

    def __init__(self, story: Story, *, transactional: bool) -> None:
        self._story, self._transactional = story, transactional
        self._since = 0
        self._keys: dict[int, int] = defaultdict(int)
        self.polls = 0
        self.seen: set[int] = set()

    def look(self, rows: Rows) -> None:
        """A target shows these rows now."""
        self.polls += 1
        if self._transactional:
            self._look_at_all(rows)
        for key in range(KEYS):
            found = self._story.version_of_text(key, rows.get(key), self._keys[key])
            assert found is not None, f"key {key} shows {rows.get(key)!r}, after what it had at {self._keys[key]}"
            self._keys[key] = found

    def _look_at_all(self, rows: Rows) -> None:
        versions = self._story.versions_of(rows)
        assert versions, f"{len(rows)} rows that no version of the view has had: {checksum(rows)}"
        later = [version for version in versions if version >= self._since]
        assert later, f"version {versions[-1]} of the view after {self._since}"
        self._since = later[0]
        self.seen.add(later[0])
