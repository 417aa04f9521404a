"""The words of a plan: its expressions, each with the place that decides what it depends on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from headwater.spark.vocabulary.kinds import Kind, classify
from headwater.spark.vocabulary.tree import Tree, read

_AGGREGATE, _WINDOW = "aggregate.AggregateExpression", "WindowExpression"


class Place(Enum):
    """What an expression is computed from."""

    ROW = "one row"
    AGGREGATE = "the rows of a group"
    WINDOW = "the rows of a window, which have an order"


@dataclass(frozen=True, slots=True)
class Word:
    """An expression of a plan, with what decides about it."""

    node: Tree
    kind: Kind | None
    place: Place
    parent: Tree | None

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True)
class Words:
    """What a plan says, subqueries included: its expressions, and the names of its nodes."""

    expressions: tuple[Word, ...]
    nodes: frozenset[str]

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the classes of all nodes and expressions, without their packages."""
        return self.nodes | {word.node.simple_name for word in self.expressions}


def words(plan_json: str) -> Words:
    """Reads what `toJSON` gives of an analyzed plan."""
    nodes: set[str] = set()
    found: list[Word] = []
    waiting: list[tuple[Tree, Tree | None, Place]] = [(read(plan_json), None, Place.ROW)]
    while waiting:
        node, parent, place = waiting.pop()
        if node.is_plan:
            nodes.add(node.name)
        else:
            found.append(Word(node, classify(node.class_name), place, parent))
        waiting.extend((child, node, _place(child, node, place)) for child in reversed(node.children))
        waiting.extend((tree, None, Place.ROW) for tree in reversed(list(node.inside())))
    return Words(tuple(found), frozenset(nodes))


def _place(child: Tree, node: Tree, place: Place) -> Place:
    """The place of a child of a node that stands in a place of its own."""
    if node.name == _WINDOW and child is node.child("windowFunction"):
        return Place.WINDOW
    if node.name == _AGGREGATE and child is node.child("aggregateFunction"):
        return Place.WINDOW if place is Place.WINDOW else Place.AGGREGATE
    return Place.ROW
