"""A case of the matrix: one generated view, which is refused in words or always equals what raw Spark answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Case:
    """A view over the topics of a world. `alternatives` are tried in turn where Spark does not run the SQL."""

    name: str
    sql: str
    world: str = "plain"
    alternatives: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The first word of the name."""
        return self.name.partition("_")[0]


def case_name(*parts: object) -> str:
    """A name for a view, made of words."""
    return _NAME.sub("_", "_".join(str(part) for part in parts).lower()).strip("_")


def unique(cases: Iterable[Case]) -> Iterator[Case]:
    """The cases without those whose SQL came before; a name that came before gets a number."""
    names: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    for case in cases:
        if (case.world, case.sql) in seen:
            continue
        seen.add((case.world, case.sql))
        count = names[case.name] = names.get(case.name, 0) + 1
        yield case if count == 1 else Case(f"{case.name}_{count}", case.sql, case.world, case.alternatives)
