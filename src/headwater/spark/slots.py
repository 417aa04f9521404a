"""Slots: the columns that rows share while they are with Spark, and what else passes through it.

A row on its way has a route (whose output it is, or which edge it takes), a weight, and a slot per column; the n-th
column of a type is in the n-th slot of that type. So Spark sees one schema however many operators there are. What Spark
has nothing to compute of is a parcel: it has a route, the task that it is for, and many rows as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StructField, StructType

ROUTE = "_route"
TASK = "_task"
WEIGHT = "_w"
PACKED = "_packed"

NOTES = -1
"""The route of rows that carry a note for the driver, packed."""
PARCELS = 1 << 20
"""Added to the number of an edge on the route of its parcels."""

_FIXED = ((ROUTE, IntegerType()), (TASK, IntegerType()), (WEIGHT, LongType()), (PACKED, BinaryType()))


@dataclass(slots=True)
class Slots:
    """The slots of a pipeline. They grow while it is planned."""

    names: dict[str, list[str]] = field(default_factory=dict)
    types: dict[str, DataType] = field(default_factory=dict)

    def place(self, types: Sequence[DataType]) -> tuple[str, ...]:
        """The slots of columns of these types."""
        used: dict[str, int] = {}
        placed = []
        for given in types:
            text = given.json()
            number = used[text] = used.get(text, -1) + 1
            slots = self.names.setdefault(text, [])
            if number == len(slots):
                slots.append(f"s{len(self.types)}")
                self.types[slots[-1]] = given
            placed.append(slots[number])
        return tuple(placed)

    @property
    def spark(self) -> StructType:
        """The schema of rows on their way, for Spark."""
        fields = [StructField(name, given) for name, given in _FIXED]
        return StructType([*fields, *(StructField(name, given) for name, given in self.types.items())])

    @property
    def arrow(self) -> pa.Schema:
        """The schema of rows on their way, for Python."""
        return pa.schema([(field.name, to_arrow_type(field.dataType, timezone="UTC")) for field in self.spark.fields])
