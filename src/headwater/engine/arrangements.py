"""The names of arrangements: one for the content of each view, and one for each part of an operator's state."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.engine.manifest import Size

_VIEW = "view/"


def arrangement_of(view: str) -> str:
    """The arrangement that holds a view's content."""
    return f"{_VIEW}{view}"


def view_of(arrangement: str) -> str | None:
    """The view whose content an arrangement holds; None if it is a part of an operator's state."""
    return arrangement.removeprefix(_VIEW) if arrangement.startswith(_VIEW) else None


def part_of(operator: str, part: str) -> str:
    """The arrangement that holds a part of an operator's state."""
    return f"{operator}/{part}"


def operator_of(arrangement: str) -> str | None:
    """The name of the state that an arrangement is a part of; None if it holds a view's content."""
    return arrangement.partition("/")[0] if view_of(arrangement) is None else None


def owner_of(arrangement: str) -> str:
    """The name of what an operator keeps: its state, or the content of a view."""
    return operator_of(arrangement) or arrangement


def renamed(arrangement: str, owner: str) -> str:
    """The arrangement that holds the same part for another operator."""
    return owner if view_of(arrangement) is not None else part_of(owner, arrangement.partition("/")[2])


def view_sizes(sizes: Mapping[str, Size]) -> dict[str, Size]:
    """The size of each view, among the sizes of all arrangements."""
    return {view: size for arrangement, size in sizes.items() if (view := view_of(arrangement)) is not None}


def operator_sizes(sizes: Mapping[str, Size]) -> dict[str, Size]:
    """The size of each operator's state, all parts of it together, by the name of the state."""
    found: dict[str, Size] = {}
    for arrangement, size in sizes.items():
        operator = operator_of(arrangement)
        if operator is not None:
            found[operator] = found.get(operator, Size(0, 0, 0)) + size
    return found
