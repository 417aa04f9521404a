"""A transaction of a database, whichever that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from headwater.cdc.place import Place

PlaceT_co = TypeVar("PlaceT_co", bound=Place, covariant=True)


@dataclass(frozen=True, slots=True)
class Transaction(Generic[PlaceT_co]):
    """A transaction. `end` is the place behind its commit: from there the next one counts.

    `id` is the number by which the database's snapshots tell whether they show it, 0 if it has none. Every record of
    it carries the `headers`.
    """

    id: int
    end: PlaceT_co
    committed_at: datetime | None
    headers: Mapping[str, str]
