"""A function in Python for use in SQL, as an application defines it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import UsageError


@dataclass(frozen=True, slots=True)
class Function:
    """A function from Arrow arrays to one Arrow array of the same length."""

    name: str
    function: Callable[..., pa.Array]
    returns: str

    def __post_init__(self) -> None:
        parameters = inspect.signature(self.function).parameters.values()
        if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.KEYWORD_ONLY) for one in parameters):
            raise UsageError(
                f"Function {self.name!r} must have a fixed number of arguments.", hint="Name each: def f(a, b): ..."
            )

    @property
    def fingerprint(self) -> str:
        """Changes when the function's source does, so that views which use it are rebuilt."""
        try:
            source = inspect.getsource(self.function)
        except (OSError, TypeError):
            source = self.function.__code__.co_code.hex()
        return hashlib.sha256(f"{self.returns}\n{source}".encode()).hexdigest()
