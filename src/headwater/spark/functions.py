"""Functions in Python for use in SQL: vectorised over Arrow arrays, and declared to be deterministic."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf


@dataclass(frozen=True, slots=True)
class Function:
    """A function from Arrow arrays to one Arrow array of the same length."""

    name: str
    function: Callable[..., pa.Array]
    returns: str

    @property
    def fingerprint(self) -> str:
        """Changes when the function's source does, so that views which use it are built anew."""
        try:
            source = inspect.getsource(self.function)
        except (OSError, TypeError):
            source = self.function.__code__.co_code.hex()
        return hashlib.sha256(f"{self.returns}\n{source}".encode()).hexdigest()


def register(session: SparkSession, function: Function) -> None:
    """Makes a function known to SQL."""
    session.udf.register(function.name, arrow_udf(function.function, function.returns))  # type: ignore[call-overload]
