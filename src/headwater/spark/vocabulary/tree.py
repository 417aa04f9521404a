"""Plans as JSON: what Spark's `toJSON` gives of a plan, read into trees of plan nodes and expressions.

Spark writes a tree as the list of its nodes, each before its children. Other trees stand inside a node: the expressions
of a plan node, and the plan of a subquery.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.spark.vocabulary.kinds import PLANS, relative

_CLASS, _CHILDREN = "class", "num-children"


@dataclass(frozen=True, slots=True)
class Tree:
    """A plan node or an expression with what is below it."""

    class_name: str
    fields: Mapping[str, Any]
    children: tuple[Tree, ...]

    @property
    def name(self) -> str:
        """The name of the class, without its package if that is the one of plans or of expressions."""
        return self.class_name.rpartition(".")[2] if self.is_plan else relative(self.class_name)

    @property
    def is_plan(self) -> bool:
        return self.class_name.startswith(PLANS)

    def child(self, field: str) -> Tree | None:
        """The child that a field names."""
        number = self.fields.get(field)
        return self.children[number] if isinstance(number, int) and number < len(self.children) else None

    def inside(self) -> Iterator[Tree]:
        """The trees that stand inside this node: expressions of a plan node, the plan of a subquery.

        Other trees inside an expression are those that it was made from, not what is evaluated.
        """
        if self.is_plan:
            yield from _trees(list(self.fields.values()))
        elif "plan" in self.fields:
            yield from _trees(self.fields["plan"])

    def walk(self) -> Iterator[Tree]:
        """This node and everything below and inside of it, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.inside())
            waiting.extend(reversed(node.children))


def read(plan_json: str) -> Tree:
    """The tree of a plan."""
    return _tree(json.loads(plan_json))


def _tree(nodes: Sequence[Mapping[str, Any]]) -> Tree:
    # From the last node to the first, so that the children of a node are there before it.
    made: list[Tree] = []
    for node in reversed(nodes):
        children = tuple(made.pop() for _ in range(node[_CHILDREN]))
        made.append(Tree(node[_CLASS], node, children))
    (root,) = made
    return root


def _trees(value: Any) -> Iterator[Tree]:
    if isinstance(value, list):
        if value and all(isinstance(one, dict) and _CHILDREN in one for one in value):
            yield _tree(value)
        else:
            for one in value:
                yield from _trees(one)
    elif isinstance(value, dict):
        yield from _trees(list(value.values()))
