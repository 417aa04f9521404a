"""Slots: the columns that the rows of all operators share on their way between two stages.

A row on its way has a route (whose output it is, or which edge it takes), a hash, a weight, and a slot per column; the
n-th column of a type is in the n-th slot of that type. So a stage has one schema however many operators it serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

ROUTE = "_route"
HASH = "_hash"
WEIGHT = "_w"
NOTE = "_note"

NOTES = -1
"""The route of rows that carry a note for the driver."""
PASSING = 1 << 20
"""Added to the number of an edge on rows that only pass a stage."""

_FIXED = ((ROUTE, IntegerType()), (HASH, LongType()), (WEIGHT, LongType()), (NOTE, StringType()))


@dataclass(slots=True)
class Slots:
    """The slots of a pipeline. They grow while it is planned."""

    names: dict[str, list[str]] = field(default_factory=dict)
    measures: list[str] = field(default_factory=list)
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

    def place_measures(self, count: int) -> tuple[str, ...]:
        """The slots of measures, which hold nothing else, so that rows can be added up by them."""
        while len(self.measures) < count:
            self.measures.append(f"m{len(self.measures)}")
            self.types[self.measures[-1]] = LongType()
        return tuple(self.measures[:count])

    @property
    def spark(self) -> StructType:
        """The schema of rows on their way, for Spark."""
        fields = [StructField(name, given) for name, given in _FIXED]
        return StructType([*fields, *(StructField(name, given) for name, given in self.types.items())])

    @property
    def arrow(self) -> pa.Schema:
        """The schema of rows on their way, for Python."""
        return pa.schema([(field.name, to_arrow_type(field.dataType, timezone="UTC")) for field in self.spark.fields])
