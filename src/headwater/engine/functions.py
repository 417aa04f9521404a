"""A function in Python for use in SQL, as an application defines it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, overload

import pyarrow as pa

from headwater.errors import UsageError

Body = TypeVar("Body", bound=Callable[..., pa.Array])


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


class Functions:
    """What an application adds functions by."""

    @overload
    def function(self, name: str, function: Body, returns: str) -> Body: ...

    @overload
    def function(self, name: str | None = None, *, returns: str) -> Callable[[Body], Body]: ...

    def function(self, name: str | None = None, function: Body | None = None, returns: str = "") -> object:
        """A function in Python for use in SQL: Arrow arrays in, one Arrow array out. It must be deterministic.

        As a decorator, `@app.function(returns="int")`, it takes the function's own name unless one is given.
        """

        def add(body: Body) -> Body:
            self._add_function(Function(name or body.__name__, body, returns))
            return body

        return add if function is None else add(function)

    def _add_function(self, function: Function) -> None:
        """Takes a function."""
        raise TypeError(f"{type(self).__name__} takes no functions.")
