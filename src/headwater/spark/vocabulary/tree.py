"""Plans as JSON: what Spark's `toJSON` gives of a plan, read into trees of plan nodes and of expressions.

Spark writes a tree as the list of its nodes, each before its children. Other trees stand inside a node: the expressions
of a plan node, and the plan of a subquery.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.spark.vocabulary.kinds import relative

_CLASS, _CHILDREN, _PLAN = "class", "num-children", "plan"
_PLANS = ("org.apache.spark.sql.catalyst.plans.logical.", "org.apache.spark.sql.execution.")


@dataclass(frozen=True, slots=True)
class Tree:
    """A plan node or an expression with what is below it.

    `name` is that of its class below the package of all expressions, or of all plan nodes: `aggregate.Sum`, `Project`.
    """

    name: str
    class_name: str
    fields: Mapping[str, Any]
    children: tuple[Tree, ...]
    is_plan: bool

    @property
    def simple_name(self) -> str:
        """The name of the class without any package."""
        return self.class_name.rpartition(".")[2]

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
        elif _PLAN in self.fields:
            yield _tree(self.fields[_PLAN], is_plan=True)

    def walk(self) -> Iterator[Tree]:
        """This node and everything below and inside of it, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed([*node.inside(), *node.children]))


def read(plan_json: str) -> Tree:
    """The tree of a plan."""
    return _tree(json.loads(plan_json), is_plan=True)


def _tree(nodes: Sequence[Mapping[str, Any]], *, is_plan: bool) -> Tree:
    # From the last node to the first, so that the children of a node are there before it.
    made: list[Tree] = []
    for node in reversed(nodes):
        children = tuple(made.pop() for _ in range(node[_CHILDREN]))
        name = node[_CLASS]
        short = name.rpartition(".")[2] if is_plan else relative(name)
        made.append(Tree(short, name, node, children, is_plan))
    (root,) = made
    return root


def _trees(value: Any) -> Iterator[Tree]:
    if isinstance(value, list):
        if value and all(isinstance(one, dict) and _CHILDREN in one for one in value):
            yield _tree(value, is_plan=value[0][_CLASS].startswith(_PLANS))
        else:
            for one in value:
                yield from _trees(one)
    elif isinstance(value, dict):
        yield from _trees(list(value.values()))
