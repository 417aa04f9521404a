"""A case of the matrix: one generated view, which is refused in words or always equals what raw Spark answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Case:
    """A view over the topics of a world.

    `alternatives` are tried in turn where Spark does not run the SQL. `reference` is another way to say the same, for
    raw Spark, where it gets the SQL itself wrong. `function` is the name in Spark's registry that the case is for.
    """

    name: str
    sql: str
    world: str = "plain"
    alternatives: tuple[str, ...] = ()
    reference: str = ""
    function: str = ""

    @property
    def question(self) -> str:
        """What raw Spark is asked."""
        return self.reference or self.sql

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
        yield case if count == 1 else replace(case, name=f"{case.name}_{count}")
