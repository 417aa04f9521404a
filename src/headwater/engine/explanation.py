"""An explanation of views: their operators, on which levels, what reaches them, and what they keep.

`str()` of it is for people: a tree per view, and all levels as a picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headwater.engine.arrangements import arrangement_of, operator_sizes
from headwater.engine.manifest import Size


@dataclass(frozen=True, slots=True)
class Input:
    """What reaches a port of an operator: the rows of a producer, taken through steps that keep no state.

    `key` is what the rows are partitioned by.
    """

    port: str
    producer: int
    steps: Sequence[str]
    key: Sequence[str]


@dataclass(frozen=True, slots=True)
class Origin:
    """A producer without state: a topic, or constant rows."""

    number: int
    title: str


@dataclass(frozen=True, slots=True)
class Operator:
    """A producer with state, on one level of the pipeline.

    `linear` is what it keeps right by adding up changes, `recomputed` what it recomputes for the groups that a
    change touches. `state` is None where it is not known. `name` is what its state is called in the store, and `layout`
    says what that state means: the same layout at the same position is the same state.
    """

    number: int
    level: int
    label: str
    inputs: Sequence[Input]
    linear: Sequence[str]
    recomputed: Sequence[str]
    view: str | None
    state: Size | None
    name: str = ""
    layout: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The operators of some views."""

    views: Mapping[str, int] = field(default_factory=dict)
    """The operator that publishes each view."""
    origins: Mapping[int, Origin] = field(default_factory=dict)
    operators: Mapping[int, Operator] = field(default_factory=dict)

    @property
    def levels(self) -> list[list[Operator]]:
        """The operators of each level, the first level first; all of a level share one stage."""
        last = max((operator.level for operator in self.operators.values()), default=0)
        return [[o for o in self.operators.values() if o.level == level] for level in range(1, last + 1)]

    @property
    def layouts(self) -> dict[str, str]:
        """The layout of each operator's state and of each view's content, by its name."""
        return {one.name: one.layout for one in self.operators.values()}

    def of(self, view: str) -> Explanation:
        """Only what one view needs."""
        needed = set(self._below(self.views[view]))
        return replace(
            self,
            views={view: self.views[view]},
            origins={number: one for number, one in self.origins.items() if number in needed},
            operators={number: one for number, one in self.operators.items() if number in needed},
        )

    def with_state(self, sizes: Mapping[str, Size]) -> Explanation:
        """The same with the size of each operator's state; `sizes` are those of all arrangements."""
        parts, nothing = operator_sizes(sizes), Size(0, 0, 0)
        operators = {
            number: replace(
                one,
                state=parts.get(one.name, nothing)
                if one.view is None
                else sizes.get(arrangement_of(one.view), nothing),
            )
            for number, one in self.operators.items()
        }
        return replace(self, operators=operators)

    def tree(self, view: str) -> list[str]:
        """The operators of a view, each above those that it reads from."""
        return list(_Tree(self).lines(self.views[view]))

    def picture(self) -> list[str]:
        """All levels, one below the other, and who reads from whom."""
        lines = [f"{'log':<10}{'   '.join(f'[{one.number}] {one.title}' for one in self.origins.values())}"]
        for number, level in enumerate(self.levels, start=1):
            lines += [f"{'':<10}{'│' if row == 0 else '▼'}" for row in range(2)]
            for row, operator in enumerate(level):
                sources = ", ".join(dict.fromkeys(str(given.producer) for given in operator.inputs))
                name = f"level {number}" if row == 0 else ""
                lines.append(f"{name:<10}[{operator.number}] {operator.label}  ◀ {sources}")
        return lines

    def to_json(self) -> dict[str, Any]:
        return {
            "views": dict(self.views),
            "origins": [asdict(one) for one in self.origins.values()],
            "operators": [asdict(one) for one in self.operators.values()],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Explanation:
        operators = [
            Operator(
                **{
                    **one,
                    "inputs": [Input(**given) for given in one["inputs"]],
                    "state": None if one["state"] is None else Size(**one["state"]),
                }
            )
            for one in value["operators"]
        ]
        origins = [Origin(**one) for one in value["origins"]]
        return cls(value["views"], {one.number: one for one in origins}, {one.number: one for one in operators})

    def __str__(self) -> str:
        trees = [line for view in self.views for line in [view, *self.tree(view), ""]]
        return "\n".join([*trees, *self.picture()])

    def _below(self, number: int) -> Iterator[int]:
        yield number
        if number in self.operators:
            for given in self.operators[number].inputs:
                yield from self._below(given.producer)


class _Tree:
    """Writes operators as a tree; one that is there already is only named."""

    def __init__(self, explanation: Explanation) -> None:
        self._explanation = explanation
        self._shown: set[int] = set()

    def lines(self, number: int, given: Input | None = None, before: str = "", *, last: bool = True) -> Iterator[str]:
        """The operator, what it does, and all below it."""
        corner, below = before + ("└─ " if last else "├─ "), before + ("   " if last else "│  ")
        port = f"{given.port}: " if given is not None and given.port not in ("rows", "records") else ""
        for step in given.steps if given is not None else ():
            yield f"{corner}{port}{step}"
            corner, port, below = f"{below}└─ ", "", f"{below}   "
        operator = self._explanation.operators.get(number)
        if operator is None:
            yield f"{corner}{port}[{number}] {self._explanation.origins[number].title}"
            return
        if number in self._shown:
            yield f"{corner}{port}[{number}] {operator.label} (as above)"
            return
        self._shown.add(number)
        yield f"{corner}{port}[{number}] {operator.label}  (level {operator.level}{_size(operator.state)})"
        note = below + ("│  " if operator.inputs else "   ")
        if operator.linear:
            yield f"{note}linear: {', '.join(operator.linear)}"
        if operator.recomputed:
            yield f"{note}recomputed per group: {', '.join(operator.recomputed)}"
        for place, one in enumerate(operator.inputs):
            yield from self.lines(one.producer, one, below, last=place == len(operator.inputs) - 1)


def _size(state: Size | None) -> str:
    if state is None:
        return ""
    rows = f"{state.rows:,} {'row' if state.rows == 1 else 'rows'}"
    return f", {rows}, {state.bytes:,} bytes"
