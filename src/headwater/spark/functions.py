"""Functions in Python for use in SQL: vectorised over Arrow arrays, and declared to be deterministic."""

from __future__ import annotations

import inspect
import sys
import sysconfig
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from headwater.engine.functions import Function
from headwater.errors import FunctionFailed
from headwater.spark.failures import FUNCTION


def register(session: SparkSession, function: Function) -> None:
    """Makes a function known to SQL."""
    _take_along(function)
    count = len(inspect.signature(function.function).parameters)
    call: Any = arrow_udf
    with warnings.catch_warnings():
        # It advises type hints, which a function of any number of arguments cannot have.
        warnings.simplefilter("ignore", UserWarning)
        made = call(guarded(function, count), function.returns, ArrowUDFType.SCALAR)
    session.udf.register(function.name, made)


def _take_along(function: Function) -> None:
    """Lets workers get what a module of the application defines, which they cannot import as this process has."""
    module = sys.modules.get(function.function.__module__)
    file = getattr(module, "__file__", None)
    installed = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    if module is not None and (file is None or not any(Path(file).is_relative_to(place) for place in installed)):
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def guarded(function: Function, count: int) -> Callable[..., pa.Array]:
    """The function, which may be given one array more: which rows are meant for it. The others become null.

    Between two stages rows of all views go together through a function of one of them.
    """

    def called(*arguments: pa.Array) -> pa.Array:
        try:
            return function.function(*arguments)
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise FunctionFailed(f"{FUNCTION} {function.name}: {reason}") from error

    def call(*arguments: pa.Array) -> pa.Array:
        if len(arguments) == count:
            return called(*arguments)
        mine = arguments[-1]
        result = called(*(argument.filter(mine) for argument in arguments[:-1]))
        places = pc.subtract(pc.cumulative_sum(mine.cast(pa.int64())), 1)
        return result.take(pc.if_else(mine, places, None))

    return call
