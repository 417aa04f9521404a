"""Bookmarks as the catalog holds them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from headwater.log.bookmarks import Bookmark
from headwater.log.catalog import Catalog
from headwater.log.embedded.position import commit_position


class CatalogBookmarks:
    """See `Bookmarks` for the contract."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def find(self, name: str) -> Bookmark | None:
        with self._catalog.read() as tx:
            row = tx.execute("SELECT name, value, commit_number FROM bookmarks WHERE name = ?", (name,)).fetchone()
        return None if row is None else _bookmark(row)

    def value(self, name: str) -> object:
        found = self.find(name)
        return None if found is None else found.value

    def beginning(self, prefix: str) -> list[Bookmark]:
        with self._catalog.read() as tx:
            # Names are ASCII: nothing that begins with the prefix comes after the prefix with the last character.
            rows = tx.execute(
                "SELECT name, value, commit_number FROM bookmarks WHERE name >= ? AND name < ? ORDER BY name",
                (prefix, prefix + "\x7f"),
            ).fetchall()
        return [_bookmark(row) for row in rows]

    def forget(self, names: Iterable[str]) -> None:
        with self._catalog.write() as tx:
            tx.executemany("DELETE FROM bookmarks WHERE name = ?", [(name,) for name in names])


def _bookmark(row: tuple[str, str, int]) -> Bookmark:
    name, value, commit = row
    return Bookmark(name, json.loads(value), commit_position(commit))
