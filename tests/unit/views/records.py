"""Records of a table's topic, as the kernels are given them."""

from __future__ import annotations


def record(*row: object, offset: int = 0, deleted: bool = False) -> tuple[tuple[object, ...], int]:
    """A record of these columns, whose last argument is its commit."""
    *columns, commit = row
    return ((*columns, commit, offset, deleted), 1)
