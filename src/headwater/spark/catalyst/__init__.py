"""Spark's Catalyst: the one package that looks at plans and expressions of Spark's through py4j.

It hands out values: `Node` is a plan that nobody else looks into, `plans` has what an optimized one says as frozen
dataclasses, and an `Expression` is a handle that says what it is. Expressions stay objects of Spark's: they are put
into new nodes and run on other columns, never printed and parsed again, so what they mean is what Spark says they mean.
"""

from headwater.spark.catalyst import plans
from headwater.spark.catalyst.expressions import Expression, conjuncts, unaliased, walk
from headwater.spark.catalyst.java import Node
from headwater.spark.catalyst.reading import read, read_subquery
from headwater.spark.catalyst.session import Catalyst, Substitution

__all__ = [
    "Catalyst",
    "Expression",
    "Node",
    "Substitution",
    "conjuncts",
    "plans",
    "read",
    "read_subquery",
    "unaliased",
    "walk",
]
